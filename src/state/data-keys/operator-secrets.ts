// The sealed data of an operator, and the digest by which its name is found.
import { hmacHex } from '../../lib/crypto/digest.ts'
import { type Static, t, Value } from '../../lib/schema/schema.ts'
import type { DataKeys } from '../port.ts'

const Secrets = t.Object({ username: t.String(), password_hash: t.String() })
export type OperatorSecrets = Static<typeof Secrets>

/** Long enough for a decision that came before its data key: the two are in different topics. */
const ARRIVAL_MS = 1_000

/** Names that look alike or differ in case only are one name. */
export const normalisedName = (username: string): string => username.normalize('NFKC').trim().toLowerCase()

/** The digests of a name, one for each key: the current key first. */
export const nameDigests = (keys: readonly [Uint8Array, ...Uint8Array[]], username: string): [string, ...string[]] => {
  const name = normalisedName(username)
  return keys.map((key) => hmacHex(key, name)) as [string, ...string[]]
}

interface SealedOperator {
  readonly id: string
  readonly key_id: string
  readonly sealed: string
}

export const sealOperator = (
  dataKeys: Pick<DataKeys, 'seal'>,
  id: string,
  secrets: OperatorSecrets,
): Promise<{ keyId: string; sealed: string }> => dataKeys.seal(id, JSON.stringify(secrets))

/**
 * Null when the data key was erased, or has not arrived yet. Throws when it is damaged or its master key is not
 * available.
 */
export const openOperator = (dataKeys: Pick<DataKeys, 'open'>, row: SealedOperator): OperatorSecrets | null => {
  const text = dataKeys.open(row.id, row.key_id, row.sealed)
  if (text === null) return null
  const secrets: unknown = JSON.parse(text)
  if (!Value.Check(Secrets, secrets))
    throw new Error(`what is sealed of the operator ${row.id} is not what it should be`)
  return secrets
}

/** The same, waiting a moment for a data key that has not arrived yet. */
export const openArrivingOperator = async (
  dataKeys: Pick<DataKeys, 'open' | 'subscribe'>,
  row: SealedOperator,
): Promise<OperatorSecrets | null> => {
  const now = openOperator(dataKeys, row)
  if (now !== null) return now
  const arrival = Promise.withResolvers<void>()
  const stop = dataKeys.subscribe((keyId) => {
    if (keyId === row.key_id) arrival.resolve()
  })
  const timer = setTimeout(arrival.resolve, ARRIVAL_MS)
  await arrival.promise
  clearTimeout(timer)
  stop()
  return openOperator(dataKeys, row)
}
