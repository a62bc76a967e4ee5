// The provider kinds as the admin API and the seeder ask for them: by any of their names, and as a list.
import type { ProviderKind } from '../providers/provider.ts'

export interface KindTable {
  /** The kind of this name; hyphens, capitals and the names that other gateways use are accepted. */
  resolve(text: string): ProviderKind | null
  /** Canonical names, in the order of the documentation. */
  readonly names: readonly string[]
}

/** Whether a kind needs an address: those that answer in process have none. */
export const needsBaseUrl = (kind: ProviderKind): boolean => kind.script === undefined
