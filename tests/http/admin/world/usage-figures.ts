// Usage as the read model answers it, of nothing or of made-up figures.
import type { UsageFigures, UsageQueries, UsageReads } from '../../../../projections/usage/query.ts'

/** Figures of nothing, with these instead. */
export const figures = (more: Partial<UsageFigures> = {}): UsageFigures => ({
  requests: 0,
  failed: 0,
  interrupted: 0,
  denied: 0,
  orphaned: 0,
  canceled: 0,
  cache_hits: 0,
  fallbacks: 0,
  unpriced: 0,
  attempts: 0,
  failed_attempts: 0,
  prompt_tokens: 0,
  completion_tokens: 0,
  cached_prompt_tokens: 0,
  reasoning_tokens: 0,
  cost_nano_usd: 0,
  errors: 0,
  p50_ms: null,
  p95_ms: null,
  p99_ms: null,
  ttft_p50_ms: null,
  ttft_p95_ms: null,
  ...more,
})

/** No usage at all; reports the tenant of each query. */
export const emptyUsage = (asked: (tenantId: string | null) => void): UsageQueries =>
  inOneMoment({
    async totals(filter) {
      asked(filter.tenantId)
      return { window: filter, totals: figures() }
    },
    async groups(filter) {
      asked(filter.tenantId)
      return { window: filter, groups: [] }
    },
    async series(filter) {
      asked(filter.tenantId)
      return { window: filter, series: [] }
    },
  })

/** What stands still by itself. */
export const inOneMoment = (reads: UsageReads): UsageQueries => ({ ...reads, snapshot: (read) => read(reads) })
