// `/admin/v1/providers/health`, `/providers/{id}/probe` and `/scores`: the providers as this instance observes them,
// from memory. The probes of a single provider are those of all instances.
import type { ProbeQueries } from '../../../../projections/probes/query.ts'
import { t } from '../../../lib/schema/schema.ts'
import type { HealthBook } from '../../../state/health/book.ts'
import { type Score, type ScoreComponents, scores } from '../../../state/health/scores.ts'
import type { Catalogue, CatalogueEntry } from '../../../state/port.ts'
import { COMPONENTS, ProviderHealthRow, ScoresAnswer } from '../answers/health.ts'
import { modelHealth, probeView, providerHealth } from '../answers/health-view.ts'
import { probeHistory } from '../answers/probe-history.ts'
import { providerOf } from '../answers/provider-view.ts'
import { listed, Paging, providerOfQuery } from '../list.ts'
import { type AdminRoute, route } from '../route.ts'
import { type ProbeRouteDeps, probeRoute } from './probe.ts'

export interface HealthRouteDeps extends ProbeRouteDeps {
  readonly catalogue: Pick<Catalogue, 'all'>
  readonly book: HealthBook
  readonly probeQueries: ProbeQueries
  adapterReady(provider: { readonly id: string }): boolean
}

const READ = ['usage:read', 'providers:admin'] as const
const Text = t.Optional(t.String({ minLength: 1, maxLength: 256 }))

const byProvider = (catalogue: Pick<Catalogue, 'all'>): Map<string, CatalogueEntry[]> =>
  Map.groupBy(catalogue.all(), ({ providerId }) => providerId)

const healthSnapshot = ({ live, catalogue, book, probeQueries, adapterReady }: HealthRouteDeps): AdminRoute =>
  route({
    method: 'GET',
    path: '/providers/health',
    scopes: READ,
    summary:
      'Health of the providers and their models, as this instance sees it; of one provider, with its recent probes',
    answer: ProviderHealthRow,
    rows: 'providers',
    query: t.Object({ ...Paging, provider_id: Text }),
    async handle({ query }) {
      const entries = byProvider(catalogue)
      const providers = live.control.table('providers')
      const one = query.provider_id
      const rows =
        one === undefined ? [...providers.rows()].map(([, row]) => row) : [providerOf(live.control, one, 'provider_id')]
      const history =
        one === undefined ? null : await probeHistory(probeQueries, one, () => book.provider(one)?.probes ?? [])
      const body = listed('providers', rows, query, ({ id, name, status }) => {
        const models = entries.get(id) ?? []
        return {
          provider_id: id,
          provider: name,
          enabled: status === 'active',
          adapter_ready: adapterReady({ id }),
          ...providerHealth(book, id, models, history?.probes),
          models: models.map((entry) => modelHealth(book, entry)),
          ...(history === null
            ? {}
            : { probes: history.probes.toReversed().map(probeView), probes_complete: history.complete }),
        }
      })
      return { body }
    },
  })

/** A typical request has three times as many prompt tokens as completion tokens. */
const costOf = ({ inputCostPerMillion: input, outputCostPerMillion: output }: CatalogueEntry): number | null =>
  input === null || output === null ? null : (3 * input + output) / 4

const mean = (values: readonly number[]): number =>
  Math.round((values.reduce((sum, value) => sum + value, 0) / values.length) * 1e6) / 1e6

const showScores = ({ live, catalogue, book }: HealthRouteDeps): AdminRoute =>
  route({
    method: 'GET',
    path: '/scores',
    scopes: ['usage:read'],
    summary: 'Scores of providers and models with blended ranks, 0 to 1',
    answer: ScoresAnswer,
    query: t.Object({ tenant_id: Text, model: Text, provider: Text }),
    handle({ query }) {
      const providerId = providerOfQuery(live.control, query.provider)
      const frame = book.current()
      const scored: { readonly entry: CatalogueEntry; readonly score: Score }[] = []
      // Plans compare candidates with the same name.
      for (const group of Map.groupBy(catalogue.all(), ({ name }) => name.toLowerCase()).values()) {
        const compared = group.map((entry) => ({
          cost: costOf(entry),
          priority: entry.priority,
          signals: frame.signals(entry.modelId),
        }))
        for (const [index, score] of scores(compared).entries()) scored.push({ entry: group[index]!, score })
      }
      const { model } = query
      const shown = scored.filter(
        ({ entry }) =>
          (model === undefined || model === entry.modelId || model.toLowerCase() === entry.name.toLowerCase()) &&
          (providerId === undefined || providerId === entry.providerId),
      )
      const models = shown.map(({ entry, score }) => ({
        model_id: entry.modelId,
        model: entry.name,
        provider_id: entry.providerId,
        provider: entry.provider,
        ...score,
      }))
      const providers = [...Map.groupBy(shown, ({ entry }) => entry.providerId)].map(([provider_id, rows]) => ({
        provider_id,
        provider: rows[0]!.entry.provider,
        models: rows.length,
        components: Object.fromEntries(
          COMPONENTS.map((name) => [name, mean(rows.map(({ score }) => score.components[name]))]),
        ) as unknown as ScoreComponents,
        rank: mean(rows.map(({ score }) => score.rank)),
      }))
      const byRank = (a: { rank: number }, b: { rank: number }) => b.rank - a.rank
      return { body: { frame: frame.number, providers: providers.sort(byRank), models: models.sort(byRank) } }
    },
  })

/** Rows for `AdminDeps.furtherRoutes`. */
export const healthRoutes = (deps: HealthRouteDeps): readonly AdminRoute[] => [
  healthSnapshot(deps),
  probeRoute(deps),
  showScores(deps),
]
