// Events of `gateway.usage.v1`: the totals of each day that is over, stored for ever. Written by the projection worker
// from the day's rows of usage.
import { type Static, t } from '../../lib/schema/schema.ts'

const count = (description: string) => t.Integer({ description })

/** One row of a day: its sums for a tenant and a dimension. */
export const UsageClosedCell = t.Object({
  dimension: t.String({
    description:
      '`total`; `model` (`name` is the provider); `key`, `endpoint`, `policy`, `code`, `purpose`, of which `name` ' +
      'is the id, slug or code.',
  }),
  tenant_id: t.String({ description: '`*`: all tenants together. Empty: no tenant, the gateway itself.' }),
  name: t.String({ description: 'What the dimension says; empty for none.' }),
  model: t.String({ description: 'Of the dimension `model`; else empty.' }),
  requests: count('Requests that arrived on the day (UTC).'),
  failed: count('Those with the outcome `error`.'),
  interrupted: count('Failed after the first byte.'),
  denied: count('Refused by the gateway.'),
  orphaned: count('Closed after a crash.'),
  canceled: count('The client left.'),
  cache_hits: count('Answered from the cache.'),
  fallbacks: count('Answered by another than the first candidate.'),
  unpriced: count('Went to a provider, at a cost that is not known.'),
  attempts: count('Calls of providers.'),
  failed_attempts: count('Those that failed.'),
  prompt_tokens: count('Tokens of the prompts, of last attempts.'),
  completion_tokens: count('Tokens of the answers, likewise.'),
  cached_prompt_tokens: count('Of the prompt tokens.'),
  reasoning_tokens: count('Of the completion tokens.'),
  cost_nano_usd: count('Cost as booked, nano-USD.'),
  billed_prompt_tokens: count('Prompt tokens of all attempts that were billed and whose tokens are known.'),
  billed_cached_tokens: count('Of those, the cached ones.'),
  billed_completion_tokens: count('Completion tokens likewise.'),
  billed_nano_usd: count('What was booked for those attempts, nano-USD.'),
  latency: t.String({
    description:
      'Histogram of milliseconds, `bin count bin count ...`: the bins are those of projections/usage/histogram.ts, ' +
      'for ever.',
  }),
  ttft: t.String({ description: 'The same of the time to the first content.' }),
})
export type UsageClosedCell = Static<typeof UsageClosedCell>

export const UsageClosed = t.Object({
  day: t.String({ description: 'The day, UTC: `2026-11-20`.' }),
  sequence: t.Integer({
    minimum: 1,
    description:
      '1, and one more each time that outcomes of the day came in after it was closed: the set with the highest ' +
      'one holds all, and takes the place of those before.',
  }),
  offsets: t.Array(t.Tuple([t.Integer({ minimum: 0 }), t.Integer({ minimum: 0 })]), {
    description:
      '`[partition, offset]`: the set holds the outcomes of the day in `gateway.requests.v1` below these offsets, ' +
      'and no others. Of two sets of one sequence the one that is farther holds.',
  }),
  part: t.Integer({ minimum: 1, description: 'A set is several records, numbered from 1.' }),
  last: t.Boolean({ description: 'The set is complete with this part.' }),
  cells: t.Array(UsageClosedCell, { description: 'Rows of the day.' }),
})
export type UsageClosed = Static<typeof UsageClosed>

export const USAGE_EVENTS = { 'usage.closed': UsageClosed } as const
