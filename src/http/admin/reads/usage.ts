// `/admin/v1/usage/summary` and `/usage/series`: sums of a window, with breakdowns or over time.
import {
  type GroupBy,
  NEVER_CORRECTED,
  type UsageFilter,
  type UsageGroup,
  type UsageQueries,
  type UsageReads,
} from '../../../../projections/usage/query.ts'
import { t } from '../../../lib/schema/schema.ts'
import { GatewayError } from '../../../wire/errors.ts'
import {
  FIGURE_COLUMNS,
  figuresView,
  Grouping,
  pointView,
  UsageSeriesAnswer,
  UsageSummaryAnswer,
} from '../answers/reads.ts'
import {
  IntervalQuery,
  intervalOf,
  shownCost,
  type UsageFilterDeps,
  UsageQuery,
  usageFilterOf,
} from '../answers/usage-filter.ts'
import { MAX_LIMIT, Paging, pageOf } from '../list.ts'
import { reading } from '../read-store.ts'
import { type AdminRoute, route } from '../route.ts'
import { shownTime, type TimeWindow } from '../window.ts'

export interface UsageRouteDeps extends UsageFilterDeps {
  readonly usage: UsageQueries
}

const SCOPES = ['usage:read'] as const

/** A window as responses show it. */
export const shownWindow = ({ fromMs, toMs }: TimeWindow) => ({
  from: shownTime(fromMs),
  to: shownTime(toMs),
})

/** Breakdowns that a query may narrow to a provider or a model; the others count whole requests. */
const NARROWED: readonly GroupBy[] = ['provider', 'model', 'provider_model']

const groupView = (by: GroupBy, { name, model, ...figures }: UsageGroup) => {
  const shown = figuresView(figures)
  if (by === 'provider_model') return { provider: name, model, ...shown }
  return { [by]: by === 'model' ? model : name, ...shown }
}

/** One breakdown, the most expensive first. */
export const breakdown = async (usage: UsageReads, filter: UsageFilter, by: GroupBy, limit = MAX_LIMIT) => {
  const { window, groups } = await usage.groups(filter, by, limit)
  return { window, rows: groups.map((group) => groupView(by, group)) }
}

const summary = ({ usage, ...deps }: UsageRouteDeps): AdminRoute =>
  route({
    method: 'GET',
    path: '/usage/summary',
    scopes: SCOPES,
    summary: 'Usage of a window, by provider, by model and by what is asked for',
    rows: 'groups',
    whole: true,
    query: t.Object({
      ...UsageQuery,
      group_by: t.Optional(Grouping),
      limit: t.Optional(t.String({ description: 'Most groups, 50 by default. More than 1,000 is clamped.' })),
      format: Paging.format,
    }),
    answer: UsageSummaryAnswer,
    async handle({ query, principal }) {
      const filter = usageFilterOf(query, principal, deps)
      const by = query.group_by ?? 'provider_model'
      const { limit } = pageOf(query)
      if ((filter.provider !== null || filter.model !== null) && !NARROWED.includes(by))
        throw new GatewayError(
          'invalid_request',
          `"group_by" ${by} is not known by provider or model: leave out "provider" and "model"`,
          { param: 'group_by' },
        )
      if (query.cost === 'corrected' && NEVER_CORRECTED.includes(by))
        throw new GatewayError(
          'invalid_request',
          `"group_by" ${by} has costs as booked only: prices are corrected by provider and model`,
          { param: 'group_by' },
        )
      const [{ window, totals }, byProvider, byModel, groups] = await reading(
        usage.snapshot((reads) =>
          Promise.all([
            reads.totals(filter),
            breakdown(reads, filter, 'provider'),
            breakdown(reads, filter, 'model'),
            breakdown(reads, filter, by, limit),
          ]),
        ),
      )
      const { from: groups_from, to: groups_to } = shownWindow(groups.window)
      return {
        columns: [...(by === 'provider_model' ? ['provider', 'model'] : [by]), ...FIGURE_COLUMNS],
        body: {
          ...shownWindow(window),
          cost: shownCost(filter),
          totals: figuresView(totals),
          by_provider: byProvider.rows,
          by_model: byModel.rows,
          group_by: by,
          groups_from,
          groups_to,
          groups: groups.rows,
        },
      }
    },
  })

const series = ({ usage, ...deps }: UsageRouteDeps): AdminRoute =>
  route({
    method: 'GET',
    path: '/usage/series',
    scopes: SCOPES,
    summary: 'Usage of a window over time; intervals without a request are there too',
    rows: 'series',
    whole: true,
    query: t.Object({ ...UsageQuery, ...IntervalQuery, format: Paging.format }),
    answer: UsageSeriesAnswer,
    async handle({ query, principal }) {
      const filter = usageFilterOf(query, principal, deps)
      const { name, widthMs } = intervalOf(query.interval, filter)
      const { window, series: points } = await reading(usage.series(filter, widthMs))
      return {
        body: {
          interval: name,
          ...shownWindow(window),
          cost: shownCost(filter),
          series: points.map(({ atMs, ...figures }) => pointView(atMs, figures)),
        },
      }
    },
  })

/** Rows for `AdminDeps.furtherRoutes`. */
export const usageRoutes = (deps: UsageRouteDeps): readonly AdminRoute[] => [summary(deps), series(deps)]
