// The wrapped keys of this data folder: they let a start with the brokers down open its credentials. Useless without
// the master key.
import { chmod, mkdir, open, readdir, readFile, rename, stat, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import type { Diagnostics } from '../../lib/process/diagnostics.ts'
import { codeOf } from '../../lib/process/error-code.ts'
import { recorded, type WrappedKey, wrappedFrom } from './wrapped-keys.ts'

const FILE = 'data-keys.json'
/** A draft this old was left by a crash. */
const DRAFT_MS = 60_000
/** Between two writes, while keys go on changing: three times what the last one took, and at most so long. */
const MOST_WAIT_MS = 1_000
const REST = 3

/** [] when there is no file, or none that can be used: the topic is the truth. */
export const readCachedKeys = async (dataDir: string): Promise<readonly WrappedKey[]> => {
  try {
    const entries: unknown = JSON.parse(await readFile(join(dataDir, FILE), 'utf8'))
    const keys = Array.isArray(entries) ? entries.map(wrappedFrom) : [null]
    return keys.every((key) => key !== null) ? keys : []
  } catch (error) {
    if (codeOf(error) === 'ENOENT' || error instanceof SyntaxError) return []
    throw error
  }
}

/**
 * Replaces the file: beside, synced, then renamed. Removes drafts of a crash: they may hold keys that were erased
 * since.
 */
const writeCachedKeys = async (dataDir: string, keys: readonly WrappedKey[], nowMs: number): Promise<void> => {
  await mkdir(dataDir, { recursive: true, mode: 0o700 })
  const draft = join(dataDir, `${FILE}.${process.pid}.draft`)
  const file = await open(draft, 'w', 0o600)
  try {
    await file.writeFile(JSON.stringify(keys.map((key) => recorded(key).data)))
    await file.sync()
  } finally {
    await file.close()
  }
  await chmod(draft, 0o600)
  await rename(draft, join(dataDir, FILE))
  for (const name of await readdir(dataDir)) {
    if (name.startsWith(`${FILE}.`) && name.endsWith('.draft')) await removeOld(join(dataDir, name), nowMs)
  }
}

const removeOld = async (path: string, nowMs: number): Promise<void> => {
  try {
    if (nowMs - (await stat(path)).mtimeMs > DRAFT_MS) await unlink(path)
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error // another process was quicker
  }
}

interface KeyCacheDeps {
  /** Null: nothing is stored. */
  readonly dataDir: string | null
  /** The keys to store now; null while they are incomplete. */
  readonly keys: () => readonly WrappedKey[] | null
  readonly nowMs: () => number
  readonly diagnostics: Diagnostics
}

/** Writes the file at once when something changed, one write after the other: a crash may follow. */
export class KeyCache {
  #timer: ReturnType<typeof setTimeout> | null = null
  #tookMs = 0
  #endedMs = 0
  #work: Promise<void> = Promise.resolve()

  constructor(readonly deps: KeyCacheDeps) {}

  changed(): void {
    if (this.deps.dataDir === null) return
    const restedMs = performance.now() - this.#endedMs
    const waitMs = Math.max(0, Math.min(MOST_WAIT_MS, REST * this.#tookMs) - restedMs)
    this.#timer ??= setTimeout(() => this.#due(), waitMs)
  }

  /** Writes what is due. */
  async close(): Promise<void> {
    if (this.#timer !== null) this.#due()
    await this.#work
  }

  #due(): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    this.#work = this.#work.then(() => this.#write())
  }

  async #write(): Promise<void> {
    const startedMs = performance.now()
    const { dataDir, keys, nowMs, diagnostics } = this.deps
    const now = keys()
    if (dataDir === null || now === null) return
    try {
      await writeCachedKeys(dataDir, now, nowMs())
    } catch (error) {
      diagnostics.warn('data_key_cache_failed', { error })
    }
    this.#endedMs = performance.now()
    this.#tookMs = this.#endedMs - startedMs
  }
}
