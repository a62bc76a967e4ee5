// The keys that belong to an installation for ever: the key that signs its chain, and the key of its digests. They were
// derived from the master key that began the chain; since then `gateway.keys.v1` holds them, wrapped like data keys,
// and they stay the same when the master key changes.
import { decisionMacKey, GENESIS, judge } from '../../domain/kernel/decision.ts'
import { deriveKey } from '../../lib/crypto/digest.ts'
import type { EventLog } from '../../log/port.ts'
import { CONTROL } from '../fold.ts'
import { readCachedKeys } from './cache.ts'
import { unwrapDataKey } from './crypto.ts'
import { masterKeysFrom, type ReadMasterKeys } from './master-keys.ts'
import { installationKeyId } from './wrapped-keys.ts'

/** The purposes of the keys: each is derived and stored under its purpose. Never change one. */
const PURPOSES = {
  decisionMac: 'decision-mac',
  endUser: 'end-user',
  idempotency: 'idempotency',
  loginAddress: 'login-address',
  operatorName: 'operator-name',
} as const

type Name = keyof typeof PURPOSES
export type InstallationKeys = Readonly<Record<Name, Uint8Array>>

const NAMES = Object.keys(PURPOSES) as readonly Name[]

const all = (keyOf: (purpose: string) => Uint8Array): InstallationKeys =>
  Object.fromEntries(NAMES.map((name) => [name, keyOf(PURPOSES[name])])) as unknown as InstallationKeys

/** The keys of an installation that begins with this master key. */
export const derivedFrom = (masterKey: Uint8Array): InstallationKeys => all((purpose) => deriveKey(masterKey, purpose))

/** Purpose and key of each, for storing them. */
export const byPurpose = (keys: InstallationKeys): readonly (readonly [purpose: string, key: Uint8Array])[] =>
  NAMES.map((name) => [PURPOSES[name], keys[name]] as const)

/** The stored keys, or null unless all of them are stored. */
export const storedKeys = (keyOf: (purpose: string) => Uint8Array | null): InstallationKeys | null =>
  NAMES.every((name) => keyOf(PURPOSES[name]) !== null) ? all((purpose) => keyOf(purpose)!) : null

/** The keys in the cache of a data folder, or null: for commands, which need not read the topic then. */
export const cachedKeys = async (dataDir: string, read: ReadMasterKeys): Promise<InstallationKeys | null> => {
  const masters = masterKeysFrom(read)
  const cached = new Map((await readCachedKeys(dataDir)).map((each) => [each.key_id, each]))
  return storedKeys((purpose) => {
    const each = cached.get(installationKeyId(purpose))
    const wrapping = each === undefined ? undefined : masters.find(each.master)
    return wrapping === undefined ? null : unwrapDataKey(wrapping, each!.key_id, each!.subject, each!.wrapped)
  })
}

/**
 * For an installation that has not stored its keys: of the accepted master keys, the keys derive from the one that
 * signed the first decision of the chain; without a chain from the current one. Throws LogUnavailable when that cannot
 * be read now.
 */
export const originalKeys = async (
  log: EventLog,
  masterKeys: readonly Uint8Array[],
  signal: AbortSignal,
): Promise<InstallationKeys> => {
  const [current] = masterKeys
  if (masterKeys.length === 1) return derivedFrom(current!)
  const end = await log.end(CONTROL, 0)
  if (end === 0) return derivedFrom(current!)
  for await (const batch of log.read(CONTROL, 0, 0, signal)) {
    for (const { value } of batch) {
      if (value === null) continue
      const signer = masterKeys.find((key) => judge(GENESIS, value, decisionMacKey(key)).kind === 'counts')
      if (signer !== undefined) return derivedFrom(signer)
    }
    if ((batch.at(-1)?.offset ?? 0) + 1 >= end) break
  }
  signal.throwIfAborted()
  return derivedFrom(current!)
}
