// What the routes of providers and of their credentials share.
import type { ControlReader } from '../../../domain/control.ts'
import { Rejection } from '../../../domain/kernel/rejection.ts'
import type { ProviderRow } from '../../../domain/registry/provider.ts'
import type { IdPrefix } from '../../../lib/crypto/ids.ts'
import type { Steering } from '../../../state/indexes/steering.ts'
import type { Commit, DataKeys, LiveState } from '../../../state/port.ts'
import type { KindTable } from '../../../upkeep/models/kind-table.ts'
import type { ModelCatalogue } from '../../../upkeep/models/model-listing.ts'
import type { ProviderWork } from '../../../upkeep/models/provider-work.ts'
import type { providerHealth } from './health-view.ts'

export interface ProviderDeps {
  readonly live: Pick<LiveState, 'control' | 'status'>
  readonly commit: Commit
  readonly dataKeys: Pick<DataKeys, 'seal' | 'erase'>
  readonly kindTable: KindTable
  readonly modelCatalogue: Pick<ModelCatalogue, 'factsOfListed'>
  readonly providerWork: ProviderWork
  readonly steering: Pick<Steering, 'overrides'>
  /** `egress.allow_private`: providers may have loopback and private addresses. */
  readonly allowPrivate: boolean
  newId(prefix: IdPrefix): string
  /** Health of a provider as this instance observes it. */
  healthOf(providerId: string): ReturnType<typeof providerHealth>
  nowMs(): number
  /**
   * Whether requests can be sent to the provider now: its kind is registered, and it has a secret if the kind needs
   * one.
   */
  adapterReady(provider: ProviderRow): boolean
  /** Whether the environment holds this variable, and providers may name it. */
  hasVariable(name: string): boolean
}

/** The provider of this id. Throws 404, naming the parameter when the id came in one. */
export const providerOf = (state: ControlReader, id: string, param: string | null = null): ProviderRow => {
  const row = state.table('providers').get(id)
  if (row === undefined) throw new Rejection('not_found', `no provider has the id "${id}"`, param)
  return row
}

/** What may be shown of a credential: its time, its name, the last characters; never the secret, sealed or not. */
export const credentialView = ({ credential }: ProviderRow) => {
  if (credential === null) return { has_credential: false }
  const { name, hint, bound_to, created_at, updated_at } = credential
  return { has_credential: true, credential: { name, hint, bound_to, created_at, updated_at } }
}
