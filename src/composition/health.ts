// Puts together what measures how well providers do: the book of health, its probes, and feedback.

import { feedbackQueries } from '../../projections/feedback/query.ts'
import { probeQueries } from '../../projections/probes/query.ts'
import { type Config, settingMs } from '../config/schema.ts'
import { providerHealth } from '../http/admin/answers/health-view.ts'
import { checkedCommit, notFrozen } from '../http/admin/checked-commit.ts'
import { feedbackRoutes } from '../http/admin/reads/feedback.ts'
import { healthRoutes } from '../http/admin/reads/health.ts'
import type { AdminRoute } from '../http/admin/route.ts'
import type { RequestLookup } from '../inference/surface/request-search.ts'
import { newId } from '../lib/crypto/ids.ts'
import type { Dial } from '../lib/http-client/http-client.ts'
import type { Diagnostics } from '../lib/process/diagnostics.ts'
import { wallMs } from '../lib/time/wall-clock.ts'
import type { HealthBook } from '../state/health/book.ts'
import type { FeedbackMeans } from '../state/health/feedback-means.ts'
import { RecentRequests } from '../state/indexes/recent-requests.ts'
import type { KindTable } from '../upkeep/models/kind-table.ts'
import type { ModelCatalogue } from '../upkeep/models/model-listing.ts'
import { startProbes } from '../upkeep/models/probes.ts'
import { watchFeedback } from '../upkeep/watch/feedback-watch.ts'
import { watchHealth } from '../upkeep/watch/health-watch.ts'
import type { Analytics } from './analytics.ts'
import type { ControlPlane } from './control-plane.ts'
import type { Outcomes } from './outcomes.ts'
import { requestLookup } from './request-lookup.ts'
import { isKafka } from './settings.ts'

export interface HealthParts {
  readonly book: HealthBook
  readonly recentRequests: RecentRequests
  readonly feedback: FeedbackMeans
  readonly requestLookup: RequestLookup
  readonly routes: readonly AdminRoute[]
  healthOf(providerId: string): ReturnType<typeof providerHealth>
  close(): Promise<void>
}

export interface HealthPartsDeps {
  readonly config: Config
  readonly control: ControlPlane
  readonly outcomes: Outcomes
  readonly analytics: Analytics
  readonly kindTable: KindTable
  readonly modelCatalogue: Pick<ModelCatalogue, 'list'>
  readonly dial: Dial
  readonly diagnostics: Diagnostics
}

export const openHealthParts = (deps: HealthPartsDeps): HealthParts => {
  const { config, control, outcomes, analytics, kindTable, modelCatalogue, dial, diagnostics } = deps
  const { live, catalogue } = control
  const nowMs = wallMs
  const watch = watchHealth({
    ...{ catalogue, spool: outcomes.spool, diagnostics, nowMs },
    // It measures how long providers took.
    monotonicMs: () => performance.now(),
  })
  const { book } = watch
  const adapterReady = (id: string) => catalogue.adapterReady(id)
  const everyMs = settingMs(config.health.probe_interval)
  const probing = { live, kindTable, modelCatalogue, dial, book, diagnostics, adapterReady, nowMs, everyMs }
  const probes = startProbes({ ...probing, random: Math.random })
  const commit = checkedCommit(control.commits.commit, nowMs, notFrozen)
  const stored = feedbackQueries(analytics.sql)
  const feedback = watchFeedback({
    book,
    nowMs,
    async sums(sinceMs) {
      const { models, untilMs } = await stored.means(sinceMs)
      return { sums: new Map(models.map(({ model_id, sum, count }) => [model_id, { sum, count }])), untilMs }
    },
  })
  return {
    book,
    recentRequests: new RecentRequests(),
    feedback: feedback.means,
    requestLookup: requestLookup({ sql: analytics.sql, hasOthers: isKafka(config) || config.server.processes > 1 }),
    routes: [
      ...healthRoutes({
        ...{ live, commit, newId, catalogue, book, probes },
        probeQueries: probeQueries(analytics.sql),
        adapterReady: ({ id }) => adapterReady(id),
      }),
      ...feedbackRoutes({ feedback: stored, live, nowMs }),
    ],
    healthOf(id) {
      const entries = catalogue.all().filter(({ providerId }) => providerId === id)
      return providerHealth(book, id, entries)
    },
    async close() {
      await probes.close()
      feedback.close()
      watch.close()
    },
  }
}
