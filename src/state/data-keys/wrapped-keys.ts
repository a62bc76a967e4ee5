// Records of `gateway.keys.v1`: a data key, or a key of the installation, each wrapped by a master key.
import { type Static, t, Value } from '../../lib/schema/schema.ts'

/** `data-key.wrapped` of `gateway.keys.v1`. */
export const WrappedDataKey = t.Object({
  key_id: t.String({ minLength: 1, maxLength: 64, description: 'The data key; also the key of the record.' }),
  subject: t.String({ maxLength: 256, description: 'What it seals for: the id of a row.' }),
  master: t.String({ maxLength: 64, description: 'Fingerprint of the master key that wraps it.' }),
  wrapped: t.String({ maxLength: 512, description: 'The data key, sealed under the master key.' }),
})

/**
 * `installation-key.wrapped`. A type and a shape of its own: builds that lack it ignore it, and never treat it as an
 * unused data key.
 */
export const WrappedInstallationKey = t.Object({
  purpose: t.String({
    minLength: 1,
    maxLength: 48,
    description: 'What the key is for; `installation:` and this is the key of the record.',
  }),
  master: t.String({ maxLength: 64, description: 'Fingerprint of the master key that wraps it.' }),
  wrapped: t.String({ maxLength: 512, description: 'The key, sealed under the master key.' }),
})

/**
 * Either of the two in memory: a key of the installation has the id `installation:<purpose>`, which is its record's key
 * too.
 */
export type WrappedKey = Static<typeof WrappedDataKey>

const INSTALLATION = 'installation'
const PREFIX = `${INSTALLATION}:`

export const installationKeyId = (purpose: string): string => `${PREFIX}${purpose}`
export const isInstallationKey = (keyId: string): boolean => keyId.startsWith(PREFIX)

/** A key of the installation is bound to this and to its id. */
export const INSTALLATION_SUBJECT = INSTALLATION

/** Type and data of its record. */
export const recorded = ({ key_id, subject, master, wrapped }: WrappedKey): { type: string; data: object } =>
  isInstallationKey(key_id)
    ? { type: 'installation-key.wrapped', data: { purpose: key_id.slice(PREFIX.length), master, wrapped } }
    : { type: 'data-key.wrapped', data: { key_id, subject, master, wrapped } }

/** The key in a record's data, or in an entry of the cache; null when there is none. */
export const wrappedFrom = (data: unknown): WrappedKey | null => {
  if (Value.Check(WrappedDataKey, data)) return isInstallationKey(data.key_id) ? null : data
  if (!Value.Check(WrappedInstallationKey, data)) return null
  const { purpose, master, wrapped } = data
  return { key_id: installationKeyId(purpose), subject: INSTALLATION_SUBJECT, master, wrapped }
}
