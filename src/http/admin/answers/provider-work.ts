// Shared by the routes that call a provider: tests, synchronisation, detection.
import { type ControlReader, eventIsActive } from '../../../domain/control.ts'
import { Rejection } from '../../../domain/kernel/rejection.ts'
import type { ModelRow } from '../../../domain/registry/model.ts'
import type { ProviderRow } from '../../../domain/registry/provider.ts'
import { type CheckResult, type ProviderTestRow, shownKind } from '../../../domain/registry/provider-test.ts'
import { usdOf } from '../../../lib/money.ts'
import { CommitFailure } from '../../../state/port.ts'
import type { AdminCall } from '../route.ts'
import { precheck, rowAfter } from '../write.ts'
import { type ProviderDeps, providerOf } from './provider-view.ts'

/** The provider as of the end of the log; or, for a repeat of a request, the recorded result of the first. */
export type Begun =
  | { readonly provider: ProviderRow; readonly earlier: null }
  | { readonly provider: null; readonly earlier: ProviderTestRow; readonly revision: string }

/**
 * Runs before a provider is called: it proves that the log can record the result, brings the catalogue to the end of
 * the log, and finds repeats.
 */
export const begin = async (
  call: AdminCall<unknown, unknown, 'id'>,
  { commit }: Pick<ProviderDeps, 'commit'>,
): Promise<Begun> => {
  const id = call.params.id
  let provider: ProviderRow | null = null
  const result = await precheck(
    commit,
    call,
    (state) => state.table('providers').get(id),
    (state) => {
      provider = providerOf(state, id)
      if (!eventIsActive(state, 'provider.tested'))
        throw new CommitFailure('refused', 'results can be recorded once all live instances are of this version')
    },
  )
  const earlier = result.repeated ? rowAfter(result, 'tests') : undefined
  if (earlier !== undefined) return { provider: null, earlier, revision: result.revision }
  if (provider === null) throw new Rejection('conflict', 'this Idempotency-Key was used before', 'Idempotency-Key')
  return { provider, earlier: null }
}

/** The provider's model of that name, id or alias. Throws 404 naming the field. */
export const modelOfProvider = (
  state: ControlReader,
  provider: ProviderRow,
  named: string,
  param: string,
): ModelRow => {
  const models = state.table('models')
  const rows = models.find('provider', provider.id).map((id) => models.get(id)!)
  const word = named.toLowerCase()
  const row =
    rows.find(({ id, name }) => id === named || name.toLowerCase() === word) ??
    rows.find(({ aliases }) => aliases.some((alias) => alias.toLowerCase() === word))
  if (row === undefined)
    throw new Rejection('not_found', `the provider "${provider.name}" has no model "${named}"`, param)
  return row
}

export const resultView = ({ cost_nano_usd: nanoUsd, ...result }: CheckResult) => ({
  ...result,
  ...(nanoUsd === undefined ? {} : { cost_usd: nanoUsd === null ? null : usdOf(nanoUsd) }),
})

export const testView = ({ number: _, updated_at: __, ...row }: ProviderTestRow) => ({
  ...row,
  kind: shownKind(row),
  results: row.results.map(resultView),
})
