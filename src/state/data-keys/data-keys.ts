// Data keys: `gateway.keys.v1`, folded. One key for each secret; erasing the key erases the secret wherever it is still
// stored.
import { newId } from '../../lib/crypto/ids.ts'
import { readEnvelope } from '../../log/envelope.ts'
import type { LogRecord } from '../../log/port.ts'
import { appendToKeys, recordOfKey } from './append.ts'
import { KeyCache, readCachedKeys } from './cache.ts'
import {
  newDataKey,
  openBytes,
  openSecret,
  sealBytes,
  sealSecret,
  unwrapDataKey,
  type WrappingKey,
  wrapDataKey,
} from './crypto.ts'
import { byPurpose, type InstallationKeys, storedKeys } from './installation-keys.ts'
import { KeyTopic } from './key-topic.ts'
import { MasterKeyMissing, type MasterKeys, masterKeysFrom } from './master-keys.ts'
import type { DataKeyDeps, DataKeyStore } from './store.ts'
import {
  INSTALLATION_SUBJECT,
  installationKeyId,
  isInstallationKey,
  type WrappedKey,
  wrappedFrom,
} from './wrapped-keys.ts'

// Ids of data keys that were erased. A tombstone is final: a rotation that has not read it may write the key again
// behind it.

/** Bound of the ids: the sweep finds keys to which no row refers. */
const MAX_ERASED = 10_000

export class ErasedKeys {
  /** `sent`: its tombstone was written here and not read so far; records that are read until then precede it. */
  readonly #ids = new Map<string, 'sent' | 'read'>()

  sent(keyId: string): void {
    this.#put(keyId, 'sent')
  }

  read(keyId: string): void {
    this.#put(keyId, 'read')
  }

  /**
   * `before`: this record of the key is older than its tombstone. `after`: it is newer, and to be erased again. Null:
   * the key was never erased.
   */
  order(keyId: string): 'before' | 'after' | null {
    const state = this.#ids.get(keyId)
    return state === undefined ? null : state === 'sent' ? 'before' : 'after'
  }

  #put(keyId: string, state: 'sent' | 'read'): void {
    this.#ids.delete(keyId)
    this.#ids.set(keyId, state)
    if (this.#ids.size <= MAX_ERASED) return
    const [oldest] = this.#ids.keys()
    this.#ids.delete(oldest!)
  }
}

/** Further ids are left to the sweep: no row refers to them. */
const MAX_OWED = 1_000
/**
 * A decision is folded within seconds of its data key: whatever a broker's clock shows, the sweep leaves a younger key
 * alone.
 */
const HELD_HERE_MS = 60_000
const REWRAPPED_AT_ONCE = 32
/** The record key of a tombstone without a data key: it makes the brokers begin another segment. */
const CLOSING_KEY = 'close'

interface Held {
  readonly wrapped: WrappedKey
  /** Null: wrapped by a master key that is not available, or damaged. */
  readonly key: Uint8Array | null
  readonly readSinceMs: number
  /** Log time of its newest record; null while the log has not shown one. */
  readonly writtenAtMs: number | null
}

/** Opens the cache, then folds the topic beside it. Await `ready()` before the catalogue is opened. */
export const openDataKeys = async (deps: DataKeyDeps): Promise<DataKeyStore> => {
  const cached = deps.dataDir === null ? [] : await readCachedKeys(deps.dataDir)
  return new Store(deps, cached)
}

class Store implements DataKeyStore {
  readonly #masters: MasterKeys
  readonly #epoch = crypto.randomUUID()
  readonly #held = new Map<string, Held>()
  readonly #owed = new Set<string>()
  readonly #erased = new ErasedKeys()
  readonly #cache: KeyCache
  /** Keys of the cache that were not in the topic so far: erased meanwhile, unless the topic has them by its end. */
  readonly #cachedOnly = new Set<string>()
  readonly #listeners = new Set<(keyId: string, what: 'arrived' | 'erased') => void>()
  #sequence = 0
  /** Log time of the newest record that replaced another and is not followed by one that closes its segment. */
  #erasedAtMs: number | null = null
  readonly #topic: KeyTopic

  constructor(
    readonly deps: DataKeyDeps,
    cached: readonly WrappedKey[],
  ) {
    this.#masters = masterKeysFrom(deps.masterKeys)
    const keys = () => (this.#topic.folded ? [...this.#held.values()].map((held) => held.wrapped) : null)
    this.#cache = new KeyCache({ ...deps, keys })
    this.#topic = new KeyTopic({
      ...deps,
      hasKeys: () => this.#held.size > 0,
      take: (record) => this.#take(record),
      onFolded: () => this.#folded(),
    })
    for (const wrapped of cached) {
      this.#hold(wrapped)
      this.#cachedOnly.add(wrapped.key_id)
    }
  }

  get ids(): ReadonlySet<string> {
    return new Set([...this.#held.keys()].filter((keyId) => !isInstallationKey(keyId)))
  }

  ready(): Promise<void> {
    return this.#topic.ready()
  }

  async seal(subject: string, secret: string): Promise<{ keyId: string; sealed: string }> {
    const { keyId, key } = await this.#make(subject)
    return { keyId, sealed: sealSecret(key, keyId, subject, secret) }
  }

  async make(subject: string): Promise<string> {
    return (await this.#make(subject)).keyId
  }

  sealUnder(keyId: string, about: string, text: string): string {
    return sealSecret(this.#sealing(keyId), keyId, about, text)
  }

  sealBytesUnder(keyId: string, about: string, bytes: Uint8Array): Uint8Array {
    return sealBytes(this.#sealing(keyId), keyId, about, bytes)
  }

  #sealing(keyId: string): Uint8Array {
    const key = this.#held.get(keyId)?.key ?? null
    if (key === null) throw new Error(`the data key ${keyId} was erased meanwhile`)
    return key
  }

  async #make(subject: string): Promise<{ keyId: string; key: Uint8Array }> {
    const keyId = newId('dek')
    const key = newDataKey()
    const [wrapped] = await this.#store([this.#wrapped(keyId, subject, key)])
    this.#hold(wrapped!)
    // A rotation that began meanwhile may have missed this key.
    if (this.#isOutdated(wrapped!)) await this.#store([this.#wrapped(keyId, subject, key)])
    return { keyId, key }
  }

  #wrapped(keyId: string, subject: string, key: Uint8Array): WrappedKey {
    const master = this.#masters.current()
    const wrapped = wrapDataKey(master, keyId, subject, key)
    return { key_id: keyId, subject, master: master.fingerprint, wrapped }
  }

  async #store(keys: readonly WrappedKey[]): Promise<readonly WrappedKey[]> {
    const { log, instance, nowMs } = this.deps
    const records = keys.map((key) =>
      recordOfKey({ instance, epoch: this.#epoch, sequence: this.#sequence++ }, key, nowMs()),
    )
    await appendToKeys(log, records, this.#topic.signal)
    return keys
  }

  installation(): InstallationKeys | null {
    return storedKeys((purpose) => this.#held.get(installationKeyId(purpose))?.key ?? null)
  }

  async storeInstallation(keys: InstallationKeys): Promise<void> {
    const wrapped = byPurpose(keys).map(([purpose, key]) =>
      this.#wrapped(installationKeyId(purpose), INSTALLATION_SUBJECT, key),
    )
    for (const each of await this.#store(wrapped)) this.#hold(each)
  }

  census(): ReadonlyMap<string, number> {
    const counts = new Map<string, number>()
    for (const { wrapped } of this.#held.values()) counts.set(wrapped.master, (counts.get(wrapped.master) ?? 0) + 1)
    return counts
  }

  async rewrap(): Promise<number> {
    const outdated = [...this.#held.values()].filter(({ wrapped }) => this.#isOutdated(wrapped))
    for (let at = 0; at < outdated.length; at += REWRAPPED_AT_ONCE) {
      const batch = outdated.slice(at, at + REWRAPPED_AT_ONCE)
      const known = batch.filter(({ wrapped: { key_id }, key }) => key !== null && this.#held.has(key_id))
      await this.#store(known.map(({ wrapped, key }) => this.#wrapped(wrapped.key_id, wrapped.subject, key!)))
      await this.#topic.followed() // keys that were erased meanwhile are erased again before anything else is done
    }
    return outdated.length
  }

  #isOutdated({ master }: WrappedKey): boolean {
    return master !== this.#masters.current().fingerprint
  }

  open(subject: string, keyId: string, sealed: string): string | null {
    const key = this.#opening(keyId)
    return key === null ? null : openSecret(key, keyId, subject, sealed)
  }

  openBytes(about: string, keyId: string, sealed: Uint8Array): Uint8Array | null {
    const key = this.#opening(keyId)
    return key === null ? null : openBytes(key, keyId, about, sealed)
  }

  /** Null when the key was erased. */
  #opening(keyId: string): Uint8Array | null {
    const held = this.#held.get(keyId)
    if (held === undefined) return null
    if (held.key === null) {
      throw this.#lacksMaster(held)
        ? new MasterKeyMissing(this.#masters.missing(held.wrapped))
        : new Error(`the data key ${keyId} is damaged`)
    }
    return held.key
  }

  async erase(keyId: string): Promise<void> {
    try {
      await this.#eraseNow(keyId)
    } catch (error) {
      if (this.#owed.size < MAX_OWED) this.#owed.add(keyId)
      this.deps.diagnostics.warn('data_key_not_erased', { key_id: keyId, error })
    }
  }

  async eraseOwed(): Promise<void> {
    for (const keyId of this.#owed) await this.#eraseNow(keyId)
    const { closesAfterMs, nowMs, log } = this.deps
    if (this.#erasedAtMs === null || closesAfterMs === undefined || nowMs() - this.#erasedAtMs < closesAfterMs) return
    await appendToKeys(log, [{ key: CLOSING_KEY, value: null }], this.#topic.signal)
    this.#erasedAtMs = null
  }

  async #eraseNow(keyId: string): Promise<void> {
    this.#erased.sent(keyId)
    await appendToKeys(this.deps.log, [{ key: keyId, value: null }], this.#topic.signal)
    this.#owed.delete(keyId)
    this.#drop(keyId)
  }

  subscribe(listener: (keyId: string, what: 'arrived' | 'erased') => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  subjects(prefix: string) {
    const begin = ([, { wrapped }]: [string, Held]) => wrapped.subject.startsWith(prefix)
    const found = [...this.#held].filter(begin).map(([keyId, { wrapped, writtenAtMs, readSinceMs }]) => {
      return { keyId, subject: wrapped.subject, knownSinceMs: Math.min(readSinceMs, writtenAtMs ?? readSinceMs) }
    })
    return found.sort((left, right) => (left.keyId < right.keyId ? -1 : 1))
  }

  followed(): Promise<void> {
    return this.#topic.followed()
  }

  olderThan(ageMs: number): readonly string[] {
    const nowMs = this.deps.nowMs()
    const isOld = ({ readSinceMs, writtenAtMs }: Held): boolean =>
      nowMs - readSinceMs >= ageMs ||
      (writtenAtMs !== null && nowMs - writtenAtMs >= ageMs && nowMs - readSinceMs >= HELD_HERE_MS)
    return [...this.#held].filter(([keyId, held]) => !isInstallationKey(keyId) && isOld(held)).map(([keyId]) => keyId)
  }

  async close(): Promise<void> {
    await this.#topic.close()
    await this.#cache.close()
  }

  #take(record: LogRecord): void {
    const { key, value } = record
    if (key === null) return
    this.#cachedOnly.delete(key)
    if (value === null) {
      this.#erasedAtMs = key === CLOSING_KEY ? null : record.atMs
      if (isInstallationKey(key)) return // kept for ever
      if ((this.#topic.folded && this.#held.has(key)) || this.#erased.order(key) !== null) this.#erased.read(key)
      this.#drop(key)
      return
    }
    const wrapped = wrappedFrom(readEnvelope(value)?.data)
    if (wrapped === null || wrapped.key_id !== key) {
      this.deps.diagnostics.warn('data_key_unreadable', { offset: record.offset })
      return
    }
    const before = this.#held.get(key)?.wrapped.wrapped
    if (before !== undefined && before !== wrapped.wrapped) this.#erasedAtMs = record.atMs
    const order = this.#erased.order(key)
    if (order === null) this.#hold(wrapped, record.atMs)
    if (order === 'after') void this.erase(key)
  }

  /** Keys that only the cache has were erased meanwhile. */
  #folded(): void {
    for (const keyId of this.#cachedOnly) this.#drop(keyId)
    this.#cachedOnly.clear()
    const locked = [...this.#held.values()].find((held) => this.#lacksMaster(held))
    if (locked !== undefined) throw new MasterKeyMissing(this.#masters.missing(locked.wrapped))
  }

  #lacksMaster({ wrapped, key }: Held): boolean {
    return key === null && this.#masters.find(wrapped.master) === undefined
  }

  #hold(wrapped: WrappedKey, atMs: number | null = null): void {
    const { key_id, subject, master } = wrapped
    const before = this.#held.get(key_id)
    // A running process continues with the keys it has unwrapped. A start with the old master key alone is refused,
    // though older wraps are still in the log.
    let key = (this.#topic.folded && before?.key) || null
    let wrapping: WrappingKey | undefined
    try {
      wrapping = this.#masters.find(master)
      if (wrapping !== undefined) key = unwrapDataKey(wrapping, key_id, subject, wrapped.wrapped)
    } catch (error) {
      this.deps.diagnostics.error('data_key_damaged', { key_id, error })
      if (before !== undefined) return
    }
    if (wrapping === undefined && this.#topic.folded) {
      this.deps.diagnostics.error('master_key_missing', { reason: this.#masters.missing(wrapped) })
    }
    const readSinceMs = before?.readSinceMs ?? this.deps.nowMs()
    this.#held.set(key_id, { wrapped, key, readSinceMs, writtenAtMs: atMs ?? before?.writtenAtMs ?? null })
    this.#notify(key_id, 'arrived')
  }

  #drop(keyId: string): void {
    if (this.#held.delete(keyId)) this.#notify(keyId, 'erased')
  }

  #notify(keyId: string, what: 'arrived' | 'erased'): void {
    for (const listener of this.#listeners) listener(keyId, what)
    this.#cache.changed()
  }
}
