// Data keys: `gateway.keys.v1`, folded. One key for each secret; erasing the key erases the secret wherever it is still stored.

import type { Diagnostics } from '../lib/diagnostics.ts'
import { newId } from '../lib/ids.ts'
import { pause } from '../lib/pause.ts'
import { Value } from '../lib/schema.ts'
import { readEnvelope, writeEnvelope } from '../log/envelope.ts'
import { type EventLog, LogDamaged, type LogRecord, LogUnavailable } from '../log/port.ts'
import { TOPICS } from '../log/topics.ts'
import { appendDataKey } from './data-key-append.ts'
import { readCachedKeys, WrappedDataKey, writeCachedKeys } from './data-key-cache.ts'
import {
  newDataKey,
  openSecret,
  sealSecret,
  unwrapDataKey,
  type WrappingKey,
  wrapDataKey,
  wrappingKey,
} from './data-key-crypto.ts'
import type { DataKeys } from './port.ts'

const KEYS = TOPICS.keys.name
const CACHE_AFTER_MS = 1_000
/** More ids than this are left to the sweep: no row refers to them. */
const MAX_OWED = 1_000
/** A decision is folded within seconds of its data key: whatever a broker's clock says, a key is not judged before. */
const KNOWN_MS = 60_000

/** A data key needs a master key that this instance lacks. Stops the start; the message names both. */
export class MasterKeyMissing extends Error {
  override readonly name = 'MasterKeyMissing'
}

export interface DataKeyDeps {
  readonly log: EventLog
  /** The current one first, then those that older data keys are still wrapped by. */
  readonly masterKeys: readonly Uint8Array[]
  readonly instance: string
  /** Where the wrapped keys are kept for a start without brokers; null: nowhere. */
  readonly dataDir: string | null
  readonly nowMs: () => number
  readonly diagnostics: Diagnostics
  /** With cached keys, how long the start waits for a log that does not answer. */
  readonly graceMs?: number
}

export interface DataKeyStore extends DataKeys {
  /** Resolves when the topic was folded to the end that it had (or from the cache, while the log does not answer). Rejects with MasterKeyMissing. */
  ready(): Promise<void>
  /** Keys that stand in the log for at least so long by its time, and were known here for a minute; or were known here for so long. */
  olderThan(ageMs: number): readonly string[]
  /** Tries again what `erase` could not write. */
  eraseOwed(): Promise<void>
  close(): Promise<void>
}

interface Held {
  readonly wrapped: WrappedDataKey
  /** Null: wrapped by a master key that is not held, or damaged. */
  readonly key: Uint8Array | null
  readonly knownSinceMs: number
  /** Log time of its newest record; null while the log has not shown one. */
  readonly writtenAtMs: number | null
}

/** Opens the cache, then folds the topic beside it. Await `ready()` before the catalogue is opened. */
export const openDataKeys = async (deps: DataKeyDeps): Promise<DataKeyStore> => {
  const cached = deps.dataDir === null ? [] : await readCachedKeys(deps.dataDir)
  return new Store(deps, cached)
}

class Store implements DataKeyStore {
  readonly #wrapping: readonly WrappingKey[]
  readonly #epoch = crypto.randomUUID()
  readonly #held = new Map<string, Held>()
  readonly #owed = new Set<string>()
  /** From the cache, and not seen in the topic so far: erased meanwhile, unless the topic says otherwise by its end. */
  readonly #cachedOnly = new Set<string>()
  readonly #listeners = new Set<(keyId: string, what: 'arrived' | 'erased') => void>()
  readonly #ready = Promise.withResolvers<void>()
  readonly #closing = new AbortController()
  #sequence = 0
  #next = 0
  #target: number | null = null
  #folded = false
  #caching: ReturnType<typeof setTimeout> | null = null
  readonly #work: Promise<unknown>

  constructor(
    readonly deps: DataKeyDeps,
    cached: readonly WrappedDataKey[],
  ) {
    this.#wrapping = deps.masterKeys.map(wrappingKey)
    for (const wrapped of cached) {
      this.#hold(wrapped)
      this.#cachedOnly.add(wrapped.key_id)
    }
    this.#ready.promise.catch(() => {}) // whoever awaits `ready()` gets it; nobody has to
    this.#work = Promise.all([this.#run(), this.#grace()])
  }

  get ids(): ReadonlySet<string> {
    return new Set(this.#held.keys())
  }

  ready(): Promise<void> {
    return this.#ready.promise
  }

  async seal(subject: string, secret: string): Promise<{ keyId: string; sealed: string }> {
    const keyId = newId('dek')
    const key = newDataKey()
    const [wrapping] = this.#wrapping
    if (wrapping === undefined) throw new MasterKeyMissing('no master key is set: nothing can be sealed')
    const wrapped = {
      key_id: keyId,
      subject,
      master: wrapping.fingerprint,
      wrapped: wrapDataKey(wrapping, keyId, subject, key),
    }
    const origin = { instance: this.deps.instance, epoch: this.#epoch, sequence: this.#sequence++ }
    const envelope = writeEnvelope(origin, 'data-key.wrapped', keyId, this.deps.nowMs(), JSON.stringify(wrapped))
    await appendDataKey(this.deps.log, keyId, Buffer.from(envelope), this.#closing.signal)
    this.#hold(wrapped)
    return { keyId, sealed: sealSecret(key, keyId, subject, secret) }
  }

  open(subject: string, keyId: string, sealed: string): string | null {
    const held = this.#held.get(keyId)
    if (held === undefined) return null
    if (held.key === null) {
      throw this.#lacksMaster(held)
        ? new MasterKeyMissing(this.#missing(held.wrapped))
        : new Error(`the data key ${keyId} is damaged`)
    }
    return openSecret(held.key, keyId, subject, sealed)
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
  }

  async #eraseNow(keyId: string): Promise<void> {
    await appendDataKey(this.deps.log, keyId, null, this.#closing.signal)
    this.#owed.delete(keyId)
    this.#drop(keyId)
  }

  subscribe(listener: (keyId: string, what: 'arrived' | 'erased') => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  olderThan(ageMs: number): readonly string[] {
    const nowMs = this.deps.nowMs()
    const isOld = ({ knownSinceMs, writtenAtMs }: Held): boolean =>
      nowMs - knownSinceMs >= ageMs ||
      (writtenAtMs !== null && nowMs - writtenAtMs >= ageMs && nowMs - knownSinceMs >= KNOWN_MS)
    return [...this.#held].filter(([, held]) => isOld(held)).map(([keyId]) => keyId)
  }

  async close(): Promise<void> {
    this.#closing.abort()
    this.#ready.reject(new Error('closed before the data keys were read'))
    await this.#work
    if (this.#caching !== null) {
      clearTimeout(this.#caching)
      await this.#writeCache()
    }
  }

  async #run(): Promise<void> {
    const { log, diagnostics } = this.deps
    const { signal } = this.#closing
    while (!signal.aborted) {
      try {
        this.#target ??= await log.end(KEYS, 0)
        this.#reached()
        for await (const batch of log.read(KEYS, 0, this.#next, signal)) {
          for (const record of batch) this.#take(record)
          this.#reached()
        }
      } catch (error) {
        if (error instanceof MasterKeyMissing || error instanceof LogDamaged) this.#ready.reject(error)
        if (error instanceof MasterKeyMissing) return
        if (!(error instanceof LogUnavailable) && !signal.aborted) diagnostics.warn('data_keys_read_failed', { error })
        await pause(500, signal)
      }
    }
  }

  #take(record: LogRecord): void {
    this.#next = record.offset + 1
    if (record.key === null) return
    this.#cachedOnly.delete(record.key)
    if (record.value === null) {
      this.#drop(record.key)
      return
    }
    const data = readEnvelope(record.value)?.data
    if (!Value.Check(WrappedDataKey, data) || data.key_id !== record.key) {
      this.deps.diagnostics.warn('data_key_unreadable', { offset: record.offset })
      return
    }
    this.#hold(data, record.atMs)
  }

  /** The end that was seen at start is folded: what the cache has beyond it was erased meanwhile. */
  #reached(): void {
    if (this.#folded || this.#target === null || this.#next < this.#target) return
    this.#folded = true
    for (const keyId of this.#cachedOnly) this.#drop(keyId)
    this.#cachedOnly.clear()
    const locked = [...this.#held.values()].find((held) => this.#lacksMaster(held))
    if (locked !== undefined) throw new MasterKeyMissing(this.#missing(locked.wrapped))
    this.#ready.resolve()
  }

  #lacksMaster({ wrapped: { master } }: Held): boolean {
    return this.#wrapping.every(({ fingerprint }) => fingerprint !== master)
  }

  #missing({ key_id, subject, master }: WrappedDataKey): string {
    const held = this.#wrapping.map(({ fingerprint }) => fingerprint).join(', ') || 'none'
    return `the data key ${key_id} (of ${subject}) is wrapped by the master key ${master}, this instance has ${held}: set security.master_key to that one`
  }

  #hold(wrapped: WrappedDataKey, atMs: number | null = null): void {
    const before = this.#held.get(wrapped.key_id)
    const wrapping = this.#wrapping.find(({ fingerprint }) => fingerprint === wrapped.master)
    let key: Uint8Array | null = null
    try {
      if (wrapping !== undefined) key = unwrapDataKey(wrapping, wrapped.key_id, wrapped.subject, wrapped.wrapped)
    } catch (error) {
      this.deps.diagnostics.error('data_key_damaged', { key_id: wrapped.key_id, error })
      if (before !== undefined) return
    }
    if (wrapping === undefined && this.#folded) {
      this.deps.diagnostics.error('master_key_missing', { reason: this.#missing(wrapped) })
    }
    const knownSinceMs = before?.knownSinceMs ?? this.deps.nowMs()
    this.#held.set(wrapped.key_id, { wrapped, key, knownSinceMs, writtenAtMs: atMs ?? before?.writtenAtMs ?? null })
    this.#tell(wrapped.key_id, 'arrived')
  }

  #drop(keyId: string): void {
    if (this.#held.delete(keyId)) this.#tell(keyId, 'erased')
  }

  #tell(keyId: string, what: 'arrived' | 'erased'): void {
    for (const listener of this.#listeners) listener(keyId, what)
    if (this.deps.dataDir !== null) this.#caching ??= setTimeout(() => void this.#writeCache(), CACHE_AFTER_MS)
  }

  async #writeCache(): Promise<void> {
    this.#caching = null
    const { dataDir, diagnostics } = this.deps
    if (dataDir === null || !this.#folded) return
    try {
      const wrapped = [...this.#held.values()].map((held) => held.wrapped)
      await writeCachedKeys(dataDir, wrapped)
    } catch (error) {
      diagnostics.warn('data_key_cache_failed', { error })
    }
  }

  /**
   * With cached keys, a log that does not answer does not hold the start. Nor does a topic whose last records were compacted away: its end is
   * then never seen as a record.
   */
  async #grace(): Promise<void> {
    const { signal } = this.#closing
    const { graceMs = 2_000, log, diagnostics } = this.deps
    await pause(graceMs, signal)
    if (this.#target === null && this.#held.size > 0) this.#ready.resolve()
    while (!this.#folded && !signal.aborted) {
      const before = this.#next
      await pause(10_000, signal)
      if (this.#folded || signal.aborted || this.#target === null || this.#next > before || !log.health().ok) continue
      diagnostics.warn('data_keys_end_not_seen', { next: this.#next, end: this.#target })
      this.#target = this.#next
      try {
        this.#reached()
      } catch (error) {
        this.#ready.reject(error)
      }
    }
  }
}
