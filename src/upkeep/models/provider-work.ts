// The work of an operator that calls providers: tests, listings for a synchronisation, detection of capabilities.
import type { ProviderRow } from '../../domain/registry/provider.ts'
import type { Payer } from '../../inference/gateway-calls.ts'
import type { ListedModel } from '../../providers/port.ts'
import type { CatalogueEntry } from '../../state/port.ts'
import { detectCapabilities, type ModelDetection } from './detect.ts'
import { type CheckDeps, type Checked, type RequestedTest, runChecks } from './provider-checks.ts'
import { workSlots } from './work-slots.ts'

export interface ProviderWorkDeps extends Omit<CheckDeps, 'payer'> {
  readonly catalogue: { all(): readonly CatalogueEntry[] }
}

/**
 * `client` is raised when the caller has left. All of it throws 429 while too much is under way, and is ended when the
 * process stops.
 */
export interface ProviderWork {
  /** The models of a provider, disabled ones too, in the order of the registry. */
  entriesOf(providerId: string): readonly CatalogueEntry[]
  test(provider: ProviderRow, requested: RequestedTest, payer: Payer, client: AbortSignal): Promise<readonly Checked[]>
  detect(entries: readonly CatalogueEntry[], payer: Payer, client: AbortSignal): Promise<readonly ModelDetection[]>
  /** The provider's listing of now. Throws 501 when its kind cannot list, and the error of its failure otherwise. */
  list(provider: ProviderRow, client: AbortSignal): Promise<readonly ListedModel[]>
  close(): Promise<void>
}

/** Pieces of work at once. */
const SLOTS = 4

export const openProviderWork = (deps: ProviderWorkDeps): ProviderWork => {
  const slots = workSlots(SLOTS)
  const { ask, kindTable } = deps
  const claims = (kind: string) => kindTable.resolve(kind)?.capabilities ?? []
  return {
    entriesOf: (providerId) => deps.catalogue.all().filter((entry) => entry.providerId === providerId),
    test: (provider, requested, payer, client) =>
      slots.run(client, (signal) => runChecks(provider, requested, { ...deps, payer }, signal)),
    detect: (entries, payer, client) =>
      slots.run(client, (signal) => detectCapabilities(entries, { ask, payer, claims }, signal)),
    list: (provider, client) => slots.run(client, (signal) => deps.modelCatalogue.list(provider, { signal })),
    close: () => slots.close(),
  }
}
