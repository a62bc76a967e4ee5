// Providers of `bootstrap:`, of the usual environment variables, and the sandbox when there is nothing else.
import type { Bootstrap } from '../../domain/bootstrap.ts'
import type { ControlReader } from '../../domain/control.ts'
import type { EventRecord } from '../../domain/kernel/decision.ts'
import type { Status } from '../../domain/kernel/fields.ts'
import { Rejection } from '../../domain/kernel/rejection.ts'
import {
  decideProvider,
  PROVIDER_DEFAULTS,
  type ProviderFields,
  type ProviderRow,
} from '../../domain/registry/provider.ts'
import { removedBefore } from '../../domain/removed-rows.ts'
import { isSendable } from '../../lib/text/storable-text.ts'
import type { ProviderKind } from '../../providers/port.ts'
import { envProblem, type KindTable, needsBaseUrl, providerProblem } from '../models/kind-table.ts'
import type { SeedDeps, SeedInput, SeedReport, SeedStep } from './step.ts'

const SANDBOX = 'sandbox'

export const providerNamed = (state: ControlReader, name: string): ProviderRow | undefined => {
  const [id] = state.table('providers').find('name', name.toLowerCase())
  return id === undefined ? undefined : state.table('providers').get(id)
}

/** Pure: creates it, brings a seeded one up to date, leaves what the API has edited. */
const decideSeeded = (
  state: ControlReader,
  entry: { id: string; name: string; status: Status },
  fields: ProviderFields,
): EventRecord[] => {
  const row = providerNamed(state, entry.name)
  if (row === undefined) return decideProvider(state, { do: 'create', ...entry, managed_by: 'bootstrap', ...fields })
  if (row.managed_by !== 'bootstrap') return []
  return decideProvider(state, { do: 'change', id: row.id, status: entry.status, managed_by: 'bootstrap', ...fields })
}

type ProviderEntry = NonNullable<Bootstrap['providers']>[number]

/**
 * The fields of a provider that an entry sets. Throws Rejection for an unknown kind, and for fields that no provider of
 * its kind can have.
 */
export const providerFieldsOf = (
  { name: _, enabled: __, models: ___, ...given }: ProviderEntry,
  kinds: KindTable,
): ProviderFields => {
  const kind = kinds.resolve(given.kind)
  if (kind === null)
    throw new Rejection('invalid', `unknown kind "${given.kind}"; the kinds are ${kinds.names.join(', ')}`, 'kind')
  const fields = { ...PROVIDER_DEFAULTS, ...given, kind: kind.kind, base_url: given.base_url ?? kind.defaultBaseUrl }
  const problem = providerProblem(kind, fields) ?? envProblem(fields.api_key_env, kinds)
  if (problem !== null) throw new Rejection('invalid', problem.message, problem.param)
  return fields
}

const listedSteps = ({ bootstrap }: SeedInput, deps: SeedDeps, report: SeedReport): SeedStep[] => {
  const steps: SeedStep[] = []
  for (const entry of bootstrap.providers ?? []) {
    const { name, enabled } = entry
    const what = `bootstrap.providers "${name}"`
    const variable = entry.api_key_env ?? null
    const secret = variable === null ? undefined : deps.env(variable)
    if (secret && !isSendable(secret.trim()))
      report.notes.push(`${what}: what ${variable} holds cannot be sent in a header`)
    const row = { id: deps.newId('prov'), name, status: enabled === false ? 'disabled' : 'active' } as const
    steps.push({ what, decide: (state) => decideSeeded(state, row, providerFieldsOf(entry, deps.kindTable)) })
  }
  return steps
}

/** The kind's own address, else the one in its usual variable; null without either. */
const usualBaseUrl = (kind: ProviderKind, deps: SeedDeps, report: SeedReport): string | null => {
  const { defaultBaseUrl, usualBaseUrlEnv: variable } = kind
  if (defaultBaseUrl !== null || variable === undefined) return defaultBaseUrl
  const given = deps.env(variable)
  if (!given) return null
  if (/^https?:\/\/[^\s/]/.test(given)) return given
  report.notes.push(
    `the provider of ${kind.usualEnv}: ${variable} is no address; it must begin with https:// or http://`,
  )
  return null
}

/** A provider named as its kind, for each kind whose usual variable is set and that no provider reads yet. */
const usualSteps = (deps: SeedDeps, report: SeedReport): SeedStep[] => {
  const steps: SeedStep[] = []
  for (const name of deps.kindTable.names) {
    const kind = deps.kindTable.resolve(name)
    const variable = kind?.usualEnv
    if (kind == null || variable == null || !deps.env(variable)) continue
    const baseUrl = usualBaseUrl(kind, deps, report)
    if (baseUrl === null && needsBaseUrl(kind)) continue
    const entry = { id: deps.newId('prov'), name: kind.kind, status: 'active' } as const
    const fields = { ...PROVIDER_DEFAULTS, kind: kind.kind, base_url: baseUrl, api_key_env: variable }
    const decide = (state: ControlReader) => {
      const used = [...state.table('providers').rows()].some(([, row]) => row.api_key_env === variable)
      return used || providerNamed(state, kind.kind) !== undefined ? [] : decideSeeded(state, entry, fields)
    }
    steps.push({ what: `the provider of ${variable}`, decide })
  }
  return steps
}

/** So that the first request works without any setup. */
const sandboxSteps = ({ bootstrap }: SeedInput, deps: SeedDeps): SeedStep[] => {
  // An empty list means that there are to be none.
  if (deps.kindTable.resolve(SANDBOX) === null || bootstrap.providers?.length === 0) return []
  const entry = { id: deps.newId('prov'), name: SANDBOX, status: 'active' } as const
  const fields = { ...PROVIDER_DEFAULTS, kind: SANDBOX, base_url: null }
  // Where all listed ones were deleted, there are to be none either.
  const isDeleted = (state: ControlReader) =>
    (bootstrap.providers ?? []).some(({ name }) => removedBefore(state, { type: 'provider.created', data: { name } }))
  const decide = (state: ControlReader) =>
    state.table('providers').size > 0 || isDeleted(state) ? [] : decideSeeded(state, entry, fields)
  return [{ what: 'the sandbox', decide }]
}

/** The listed ones, then those of the usual variables; the sandbox only when there is no other provider. */
export const providerSteps = (input: SeedInput, deps: SeedDeps, report: SeedReport): SeedStep[] => [
  ...listedSteps(input, deps, report),
  ...usualSteps(deps, report),
  ...sandboxSteps(input, deps),
]
