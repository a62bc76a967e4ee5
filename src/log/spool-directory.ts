// Where spools live: `<data.dir>/spool/<number>/`, who holds one, how far its consumers are, what was set aside.
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { newId } from '../lib/ids.ts'
import type { SpoolTopic } from './frame.ts'
import { type HeldLock, tryLock } from './lock.ts'

export interface ClaimedSpool {
  readonly number: number
  readonly directory: string
  /** Minted with the directory; the epoch is what is new at each start. */
  readonly instance: string
  readonly lock: HeldLock
}

export const spoolDirectory = (dataDir: string, number: number): string => join(dataDir, 'spool', String(number))

/** The numbers of the spools that exist, ascending. */
export const spoolNumbers = (dataDir: string): number[] => {
  const root = join(dataDir, 'spool')
  if (!existsSync(root)) return []
  return readdirSync(root)
    .filter((name) => /^\d{1,9}$/.test(name))
    .map(Number)
    .sort((left, right) => left - right)
}

/** Folders that a process which was ended in `removeSpool` left. One that is just being removed is held. */
const removeGone = (dataDir: string): void => {
  const root = join(dataDir, 'spool')
  if (!existsSync(root)) return
  for (const name of readdirSync(root)) {
    if (!/^\d{1,9}\.gone-[0-9a-f]{12}$/.test(name)) continue
    const lock = tryLock(join(root, name))
    if (lock === null) continue
    rmSync(lock.directory, { recursive: true, force: true })
    lock.release()
  }
}

/** Takes the lowest-numbered spool that nobody holds, else makes the next one. Held until `lock.release()` or the death of the process. */
export const claimSpool = (dataDir: string): ClaimedSpool => {
  removeGone(dataDir)
  for (const number of spoolNumbers(dataDir)) {
    const claimed = claimNumber(dataDir, number)
    if (claimed !== null) return claimed
  }
  for (let number = (spoolNumbers(dataDir).at(-1) ?? -1) + 1; ; number++) {
    mkdirSync(spoolDirectory(dataDir, number), { recursive: true, mode: 0o700 })
    const claimed = claimNumber(dataDir, number)
    if (claimed !== null) return claimed
  }
}

/** Takes every spool that nobody holds. */
export const claimFreeSpools = (dataDir: string): ClaimedSpool[] =>
  spoolNumbers(dataDir).flatMap((number) => claimNumber(dataDir, number) ?? [])

const claimNumber = (dataDir: string, number: number): ClaimedSpool | null => {
  const directory = spoolDirectory(dataDir, number)
  const lock = tryLock(directory)
  if (lock === null) return null
  try {
    return { number, directory, instance: instanceOf(directory), lock }
  } catch (error) {
    lock.release()
    throw error
  }
}

const instanceOf = (directory: string): string => {
  const path = join(directory, 'instance')
  if (existsSync(path)) return readFileSync(path, 'utf8').trim()
  const instance = newId('ins')
  replaceFile(path, `${instance}\n`)
  return instance
}

/** Deletes a claimed spool for good. The name is free at once; the lock is released last, so nobody adopts what is going. */
export const removeSpool = (claimed: ClaimedSpool): void => {
  const gone = `${claimed.directory}.gone-${randomBytes(6).toString('hex')}`
  renameSync(claimed.directory, gone)
  try {
    rmSync(gone, { recursive: true, force: true })
  } finally {
    claimed.lock.release()
  }
}

/** `sender` counts records of the spool, a read model the offsets of its topic. */
export type WatermarkTopic = SpoolTopic | 'spool'

const watermarkPath = (directory: string, consumer: string, topic: WatermarkTopic): string =>
  join(directory, 'watermarks', `${consumer}.${topic}`)

/**
 * Says that a consumer (`[a-z0-9_-]+`) needs nothing below `offset` of this spool any more. Call it after what was read is safe elsewhere.
 * Atomic; may be lost in a power cut, which costs nothing but a later deletion.
 */
export const writeWatermark = (directory: string, consumer: string, topic: WatermarkTopic, offset: number): void => {
  if (!/^[a-z0-9_-]+$/.test(consumer)) throw new RangeError(`not a consumer's name: ${consumer}`)
  mkdirSync(join(directory, 'watermarks'), { recursive: true, mode: 0o700 })
  replaceFile(watermarkPath(directory, consumer, topic), `${offset}\n`)
}

/** What a consumer wrote last; 0 when it never did, or when what stands there is no number. */
export const readWatermark = (directory: string, consumer: string, topic: WatermarkTopic): number => {
  const path = watermarkPath(directory, consumer, topic)
  if (!existsSync(path)) return 0
  const offset = Number(readFileSync(path, 'utf8'))
  return Number.isSafeInteger(offset) && offset > 0 ? offset : 0
}

/** The most that is kept of what was set aside, per spool. */
const SET_ASIDE_BYTES = 256 * 1024 * 1024

/** Keeps bytes that could not be read or shipped, for people to look at. False when the bound is reached and nothing was kept. */
export const setAside = (directory: string, name: string, bytes: Uint8Array | string): boolean => {
  const folder = join(directory, 'set-aside')
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const size = readdirSync(folder).reduce((sum, file) => sum + statSync(join(folder, file)).size, 0)
  if (size + bytes.length > SET_ASIDE_BYTES) return false
  writeFileSync(join(folder, name), bytes, { flag: 'a', mode: 0o600, flush: true })
  return true
}

const replaceFile = (path: string, text: string): void => {
  const beside = `${path}.${process.pid}.new`
  writeFileSync(beside, text, { mode: 0o600 })
  renameSync(beside, path)
}
