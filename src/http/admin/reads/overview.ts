// `/admin/v1/overview`: a summary of everything. Usage from the read model, the health of the providers from memory.
import type { UsageFilter, UsageReads } from '../../../../projections/usage/query.ts'
import type { ControlReader } from '../../../domain/control.ts'
import { t } from '../../../lib/schema/schema.ts'
import type { providerHealth } from '../answers/health-view.ts'
import { figuresView, OverviewAnswer, pointView } from '../answers/reads.ts'
import { IntervalQuery, intervalOf, shownCost, UsageQuery, usageFilterOf } from '../answers/usage-filter.ts'
import { MAX_LIMIT } from '../list.ts'
import { reading } from '../read-store.ts'
import { type AdminRoute, route } from '../route.ts'
import { breakdown, shownWindow, type UsageRouteDeps } from './usage.ts'

export interface ProviderStateDeps {
  readonly live: { readonly control: ControlReader }
  healthOf(providerId: string): ReturnType<typeof providerHealth>
  adapterReady(provider: { readonly id: string }): boolean
}

/** The providers and their health, as this instance observes them. */
export const providerStates = ({ live, healthOf, adapterReady }: ProviderStateDeps) =>
  [...live.control.table('providers').rows()].slice(0, MAX_LIMIT).map(([id, { name, status }]) => ({
    provider_id: id,
    provider: name,
    enabled: status === 'active',
    adapter_ready: adapterReady({ id }),
    ...healthOf(id),
  }))

const readOverview = async (usage: UsageReads, filter: UsageFilter, widthMs: number) => {
  const { window, totals } = await usage.totals(filter)
  const before = { ...filter, fromMs: 2 * window.fromMs - window.toMs, toMs: window.fromMs }
  const [previous, series, byProvider, byModel] = await Promise.all([
    usage.totals(before),
    usage.series(filter, widthMs),
    breakdown(usage, filter, 'provider'),
    breakdown(usage, filter, 'model'),
  ])
  return { window, totals, previous, series, byProvider, byModel }
}

/** Rows for `AdminDeps.furtherRoutes`. */
export const overviewRoutes = (deps: UsageRouteDeps & ProviderStateDeps): readonly AdminRoute[] => [
  route({
    method: 'GET',
    path: '/overview',
    scopes: ['usage:read'],
    summary:
      'Usage of a window and of the one before, over time, by provider and model, and the health of the providers',
    query: t.Object({ ...UsageQuery, ...IntervalQuery }),
    answer: OverviewAnswer,
    async handle({ query, principal }) {
      const { usage } = deps
      const filter = usageFilterOf(query, principal, deps)
      const { name, widthMs } = intervalOf(query.interval, filter)
      const { window, totals, previous, series, byProvider, byModel } = await reading(
        usage.snapshot((reads) => readOverview(reads, filter, widthMs)),
      )
      return {
        body: {
          window: { ...shownWindow(window), interval: name },
          cost: shownCost(filter),
          summary: { ...shownWindow(window), ...figuresView(totals) },
          previous: { ...shownWindow(previous.window), ...figuresView(previous.totals) },
          series: series.series.map(({ atMs, ...figures }) => pointView(atMs, figures)),
          by_provider: byProvider.rows,
          by_model: byModel.rows,
          providers: providerStates(deps),
        },
      }
    },
  }),
]
