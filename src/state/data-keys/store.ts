// The operations of data keys beyond sealing and opening, and their dependencies.
import type { Diagnostics } from '../../lib/process/diagnostics.ts'
import type { EventLog } from '../../log/port.ts'
import type { DataKeys } from '../port.ts'
import type { InstallationKeys } from './installation-keys.ts'
import type { ReadMasterKeys } from './master-keys.ts'

export interface DataKeyDeps {
  readonly log: EventLog
  readonly masterKeys: ReadMasterKeys
  readonly instance: string
  /** The folder of the wrapped keys for a start without brokers; null: none. */
  readonly dataDir: string | null
  readonly nowMs: () => number
  readonly diagnostics: Diagnostics
  /** With cached keys, how long the start waits for a log that does not respond. */
  readonly graceMs?: number
  /**
   * Brokers do not compact the segment that is written to: so long after an erasure one more record closes it. Absent:
   * the log needs none.
   */
  readonly closesAfterMs?: number
}

export interface DataKeyStore extends DataKeys {
  /**
   * Resolves when the topic is folded to the end that it had (or from the cache, while the log does not respond).
   * Rejects with MasterKeyMissing.
   */
  ready(): Promise<void>
  /** Keys that are in the log for at least so long by its time, and here for a minute; or that are here for so long. */
  olderThan(ageMs: number): readonly string[]
  /** Makes a data key for many texts. */
  make(subject: string): Promise<string>
  /** Seals under an existing key; `open` opens it for the same `about`. */
  sealUnder(keyId: string, about: string, text: string): string
  /** As `sealUnder`, for bytes; `openBytes` opens them for the same `about`. */
  sealBytesUnder(keyId: string, about: string, bytes: Uint8Array): Uint8Array
  /** Null when the key was erased. Throws for bytes that were not sealed so, or when the master key is not here. */
  openBytes(about: string, keyId: string, sealed: Uint8Array): Uint8Array | null
  /** The keys whose subject has this prefix, the oldest first. */
  subjects(
    prefix: string,
  ): readonly { readonly keyId: string; readonly subject: string; readonly knownSinceMs: number }[]
  /** Resolves when all records of the present log are folded. Throws LogUnavailable. */
  followed(): Promise<void>
  /** Repeats the erasures that failed, and makes sure that the brokers can compact erased keys. */
  eraseOwed(): Promise<void>
  /** The stored keys of the installation; null while they are not stored, or not read here. */
  installation(): InstallationKeys | null
  /** Stores them, wrapped by the current master key. */
  storeInstallation(keys: InstallationKeys): Promise<void>
  /** How many keys each master key wraps, by fingerprint. */
  census(): ReadonlyMap<string, number>
  /**
   * Wraps by the current master key what another one wraps; returns how many. May stop at any point, and start again.
   */
  rewrap(): Promise<number>
  close(): Promise<void>
}
