// `/admin/v1/providers/{id}/test` and its history. A test is a decision: its actor, and the result of every check.
import { closed, distinct } from '../../../domain/kernel/fields.ts'
import type { ProviderRow } from '../../../domain/registry/provider.ts'
import {
  decideProviderTest,
  PROBE,
  type ProviderTested,
  shownKind,
  testsOf,
} from '../../../domain/registry/provider-test.ts'
import { t } from '../../../lib/schema/schema.ts'
import type { CatalogueEntry } from '../../../state/port.ts'
import { CHECKS, type Check } from '../../../upkeep/models/provider-checks.ts'
import { GatewayError } from '../../../wire/errors.ts'
import { payerOf } from '../../auth.ts'
import { type ProviderDeps, providerOf } from '../answers/provider-view.ts'
import { begin, modelOfProvider, resultView, testView } from '../answers/provider-work.ts'
import { ProviderTestView } from '../answers/work.ts'
import { checked } from '../check.ts'
import { listed, Paging } from '../list.ts'
import { type AdminRoute, route } from '../route.ts'
import { write, writtenRow } from '../write.ts'

const NewTest = closed(
  t.Object({
    checks: t.Optional(t.Array(t.String({ minLength: 1, maxLength: 64 }), { maxItems: 16 })),
    model: t.Optional(t.String({ minLength: 1, maxLength: 256 })),
    prompt: t.Optional(t.String({ minLength: 1, maxLength: 8_192 })),
  }),
)

/** The checks to run, each once, in the order of the documentation; all of them when none is named. */
const checksOf = (named: readonly string[] = []): readonly Check[] => {
  const unknown = named.find((name) => !(CHECKS as readonly string[]).includes(name))
  if (unknown !== undefined) {
    throw new GatewayError('invalid_request', `unknown check "${unknown}"; the checks are ${CHECKS.join(', ')}`, {
      param: 'checks',
    })
  }
  const wanted = distinct(named)
  return wanted.length === 0 ? CHECKS : CHECKS.filter((check) => wanted.includes(check))
}

/**
 * The model for the sample: the named one, else the active one of the first priority, the earliest created of several.
 */
const entryOf = (provider: ProviderRow, named: string | undefined, deps: ProviderDeps): CatalogueEntry | null => {
  const entries = deps.providerWork.entriesOf(provider.id)
  if (named !== undefined) {
    const { id } = modelOfProvider(deps.live.control, provider, named, 'model')
    return entries.find(({ modelId }) => modelId === id) ?? null
  }
  const models = deps.live.control.table('models')
  const active = entries.flatMap((entry) => {
    const row = models.get(entry.modelId)
    return row?.status === 'active' ? [{ entry, priority: row.priority, id: entry.modelId }] : []
  })
  // Ids sort by time of creation.
  active.sort((a, b) => a.priority - b.priority || (a.id < b.id ? -1 : 1))
  return active[0]?.entry ?? null
}

const testProvider = (deps: ProviderDeps): AdminRoute =>
  route({
    method: 'POST',
    path: '/providers/:id/test',
    forAll: true,
    scopes: ['providers:admin'],
    summary:
      'Test a provider: whether it can be reached, what it lists, and one small completion; the result is recorded',
    body: NewTest,
    bodyOptional: true,
    answer: ProviderTestView,
    async handle(call) {
      const checks = checksOf(call.body.checks)
      const begun = await begin(call, deps)
      if (begun.provider === null) return { body: testView(begun.earlier), revision: begun.revision }
      const { provider } = begun
      const entry = entryOf(provider, call.body.model, deps)
      const wanted = { checks, entry, prompt: call.body.prompt ?? null }
      const results = await deps.providerWork.test(provider, wanted, payerOf(call.principal), call.request.signal)
      const success = results.every(({ shown }) => shown.status !== 'failed')
      const tested: ProviderTested = {
        id: deps.newId('test'),
        provider_id: provider.id,
        kind: 'test',
        success,
        results: results.map(({ recorded }) => recorded),
      }
      const result = await write(
        deps.commit,
        call,
        (state) => state.table('providers').get(provider.id),
        (state) => decideProviderTest(state, tested),
      )
      const row = writtenRow(result, 'tests')
      const shown = row.id === tested.id ? results.map((one) => resultView(one.shown)) : row.results.map(resultView)
      return { body: { ...testView(row), results: shown }, revision: result.revision }
    },
  })

const Kind = t.Union([t.Literal('test'), t.Literal('detection'), t.Literal('sync'), t.Literal(PROBE), t.Literal('all')])

const listTests = (deps: ProviderDeps): AdminRoute =>
  route({
    method: 'GET',
    path: '/providers/:id/tests',
    scopes: ['usage:read', 'providers:admin'],
    summary:
      'The last tests of a provider, the newest first; `kind` is `test` (default), `detection`, `sync`, ' +
      '`probe` (those with an `Idempotency-Key`) or `all`. Older ones are in the audit log',
    rows: 'tests',
    answer: ProviderTestView,
    query: t.Object({ ...Paging, kind: t.Optional(t.String()) }),
    handle({ params, query }) {
      const { control } = deps.live
      const provider = providerOf(control, params.id)
      const { kind } = checked(t.Object({ kind: Kind }), { kind: query.kind ?? 'test' })
      const rows = testsOf(control, provider.id).filter((row) => kind === 'all' || shownKind(row) === kind)
      return { body: listed('tests', rows, query, testView) }
    },
  })

export const providerTestRoutes = (deps: ProviderDeps): AdminRoute[] => [testProvider(deps), listTests(deps)]
