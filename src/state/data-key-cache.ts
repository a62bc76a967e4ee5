// The wrapped data keys of this data folder: what lets a start with the brokers down open its credentials. Useless without the master key.
import { chmod, mkdir, open, readFile, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { codeOf } from '../lib/error-code.ts'
import { type Static, t, Value } from '../lib/schema.ts'

const FILE = 'data-keys.json'

/** `data-key.wrapped` of `gateway.keys.v1`. */
export const WrappedDataKey = t.Object({
  key_id: t.String({ minLength: 1, maxLength: 64, description: 'The data key; also the key of the record.' }),
  subject: t.String({ maxLength: 256, description: 'What it seals for: the id of a row.' }),
  master: t.String({ maxLength: 64, description: 'Fingerprint of the master key that wraps it.' }),
  wrapped: t.String({ maxLength: 512, description: 'The data key, sealed under the master key.' }),
})
export type WrappedDataKey = Static<typeof WrappedDataKey>

/** [] when there is no file, or none that can be used: the topic is the truth. */
export const readCachedKeys = async (dataDir: string): Promise<readonly WrappedDataKey[]> => {
  try {
    const keys: unknown = JSON.parse(await readFile(join(dataDir, FILE), 'utf8'))
    return Value.Check(t.Array(WrappedDataKey), keys) ? keys : []
  } catch (error) {
    if (codeOf(error) === 'ENOENT' || error instanceof SyntaxError) return []
    throw error
  }
}

/** Replaces the file: beside, synced, then renamed. */
export const writeCachedKeys = async (dataDir: string, keys: readonly WrappedDataKey[]): Promise<void> => {
  await mkdir(dataDir, { recursive: true, mode: 0o700 })
  const draft = join(dataDir, `${FILE}.${process.pid}.draft`)
  const file = await open(draft, 'w', 0o600)
  try {
    await file.writeFile(JSON.stringify(keys))
    await file.sync()
  } finally {
    await file.close()
  }
  await chmod(draft, 0o600)
  await rename(draft, join(dataDir, FILE))
}
