// The master keys of this process: the one that wraps new data keys, and those that are accepted beside it while a
// rotation is under way.
import { type WrappingKey, wrappingKey } from './crypto.ts'

/**
 * A key is wrapped by a master key that this instance lacks. Stops the start; the message names both by their
 * fingerprints.
 */
export class MasterKeyMissing extends Error {
  override readonly name = 'MasterKeyMissing'
}

/** The current key first. Read again on each use: a key file may be replaced while the process runs. */
export type ReadMasterKeys = () => readonly Uint8Array[]

export interface MasterKeys {
  /** The key that wraps new data keys. Throws MasterKeyMissing when there is none. */
  current(): WrappingKey
  /** The key of this fingerprint; reads the sources again before it returns undefined. */
  find(fingerprint: string): WrappingKey | undefined
  /** The message, on one line, that this key cannot be unwrapped here. */
  missing(key: { readonly key_id: string; readonly subject: string; readonly master: string }): string
  /** The keys that a start at this moment would read. */
  fingerprints(): readonly string[]
}

export const masterKeysFrom = (read: ReadMasterKeys): MasterKeys => {
  const known = new Map<string, WrappingKey>()
  const byBytes = new Map<string, WrappingKey>()
  const now = (): readonly WrappingKey[] =>
    read().map((masterKey) => {
      const name = Buffer.from(masterKey).toString('latin1')
      const wrapping = byBytes.get(name) ?? wrappingKey(masterKey)
      byBytes.set(name, wrapping)
      known.set(wrapping.fingerprint, wrapping)
      return wrapping
    })
  return {
    current() {
      const [first] = now()
      if (first === undefined) throw new MasterKeyMissing('no master key is set: nothing can be sealed')
      return first
    },
    find(fingerprint) {
      if (!known.has(fingerprint)) now()
      return known.get(fingerprint)
    },
    missing({ key_id, subject, master }) {
      const held = [...known.keys()].join(', ') || 'none'
      return (
        `the data key ${key_id} (of ${subject}) is wrapped by the master key ${master}, this instance has ${held}: ` +
        'set security.master_key to that one'
      )
    },
    fingerprints: () => now().map(({ fingerprint }) => fingerprint),
  }
}
