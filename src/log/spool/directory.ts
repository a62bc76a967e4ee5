// The directories of spools, `<data.dir>/spool/<number>/`: their locks, the watermarks of consumers, and records set
// aside.
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { newId } from '../../lib/crypto/ids.ts'
import { failpoint } from '../../lib/process/failpoints.ts'
import { isName } from '../envelope.ts'
import { type Files, nodeFiles, writeWhole } from '../files.ts'
import type { DirectoryLock } from '../lock.ts'
import type { SpoolTopic } from '../segments/segments.ts'

export interface ClaimedSpool {
  readonly number: number
  readonly directory: string
  /** Made with the directory; the epoch is new at each start. */
  readonly instance: string
  readonly lock: DirectoryLock
}

export const spoolDirectory = (dataDir: string, number: number): string => join(dataDir, 'spool', String(number))

/** The numbers of the spools that exist, ascending. */
export const spoolNumbers = (dataDir: string, files: Files = nodeFiles): number[] => {
  const root = join(dataDir, 'spool')
  if (files.size(root) === null) return []
  return files
    .list(root)
    .filter((name) => /^\d{1,9}$/.test(name))
    .map(Number)
    .sort((left, right) => left - right)
}

/** Removes folders of a `removeSpool` that was interrupted. One that is being removed now is locked. */
const removeInterrupted = (dataDir: string, files: Files): void => {
  const root = join(dataDir, 'spool')
  if (files.size(root) === null) return
  for (const name of files.list(root)) {
    if (!/^\d{1,9}\.gone-[0-9a-f]{12}$/.test(name)) continue
    const lock = files.lock(join(root, name))
    if (lock === null) continue
    files.removeDirectory(lock.directory)
    lock.release()
  }
}

/**
 * Claims the lowest-numbered unlocked spool, else makes the next one. Locked until `lock.release()` or the death of
 * the process.
 */
export const claimSpool = (dataDir: string, files: Files = nodeFiles): ClaimedSpool => {
  removeInterrupted(dataDir, files)
  for (const number of spoolNumbers(dataDir, files)) {
    const claimed = claimNumber(dataDir, number, files)
    if (claimed !== null) return claimed
  }
  for (let number = (spoolNumbers(dataDir, files).at(-1) ?? -1) + 1; ; number++) {
    files.makeDirectory(spoolDirectory(dataDir, number))
    const claimed = claimNumber(dataDir, number, files)
    if (claimed !== null) return claimed
  }
}

/** Claims every unlocked spool. */
export const claimFreeSpools = (dataDir: string, files: Files = nodeFiles): ClaimedSpool[] =>
  spoolNumbers(dataDir, files).flatMap((number) => claimNumber(dataDir, number, files) ?? [])

const claimNumber = (dataDir: string, number: number, files: Files): ClaimedSpool | null => {
  const directory = spoolDirectory(dataDir, number)
  const lock = files.lock(directory)
  if (lock === null) return null
  try {
    return { number, directory, instance: instanceOf(directory, files), lock }
  } catch (error) {
    lock.release()
    throw error
  }
}

const instanceOf = (directory: string, files: Files): string => {
  const path = join(directory, 'instance')
  const stored = files.size(path) === null ? '' : files.readWhole(path).toString('utf8').trim()
  if (isName(stored)) return stored
  // Durable before anything is written under the name: readers would skip records of an instance whose name a power
  // cut took.
  const instance = newId('ins')
  replaceDurably(directory, 'instance', `${instance}\n`, files)
  return instance
}

/** Creates or replaces a file of this text in a spool's directory. Atomic, and durable when it returns. */
export const replaceDurably = (directory: string, name: string, text: string, files: Files = nodeFiles): void => {
  const path = join(directory, name)
  const beside = `${path}.new`
  if (files.size(beside) !== null) files.remove(beside)
  files.append(beside, text)
  files.rename(beside, path)
  files.syncDirectory(directory)
}

/**
 * Deletes a claimed spool for good. Its number is free at once; the lock is released last, so that no process adopts a
 * spool that is being deleted.
 */
export const removeSpool = (claimed: ClaimedSpool, files: Files = nodeFiles): void => {
  const renamed = `${claimed.directory}.gone-${randomBytes(6).toString('hex')}`
  files.rename(claimed.directory, renamed)
  try {
    files.removeDirectory(renamed)
  } finally {
    claimed.lock.release()
  }
}

/** `sender` counts records of the spool, a read model the offsets of its topic. */
export type WatermarkTopic = SpoolTopic | 'spool'

const watermarkPath = (directory: string, consumer: string, topic: WatermarkTopic): string =>
  join(directory, 'watermarks', `${consumer}.${topic}`)

/**
 * Records that a consumer (`[a-z0-9_-]+`) needs nothing below `offset` of this spool any more. Call it after what was
 * read is safe elsewhere. Atomic; a power cut may undo it, which only delays a deletion.
 */
export const writeWatermark = (
  directory: string,
  consumer: string,
  topic: WatermarkTopic,
  offset: number,
  files: Files = nodeFiles,
): void => {
  if (!/^[a-z0-9_-]+$/.test(consumer)) throw new RangeError(`not a consumer's name: ${consumer}`)
  files.makeDirectory(join(directory, 'watermarks'))
  replaceFile(watermarkPath(directory, consumer, topic), `${offset}\n`, files)
}

/** The last watermark of a consumer; 0 without one, or when the file holds no number. */
export const readWatermark = (
  directory: string,
  consumer: string,
  topic: WatermarkTopic,
  files: Files = nodeFiles,
): number => {
  const path = watermarkPath(directory, consumer, topic)
  if (files.size(path) === null) return 0
  const offset = Number(files.readWhole(path).toString('utf8'))
  return Number.isSafeInteger(offset) && offset > 0 ? offset : 0
}

/** The highest watermark of any consumer of this spool. */
export const furthestWatermark = (directory: string, topic: WatermarkTopic, files: Files = nodeFiles): number => {
  const folder = join(directory, 'watermarks')
  if (files.size(folder) === null) return 0
  const ending = `.${topic}`
  return files
    .list(folder)
    .filter((name) => name.endsWith(ending))
    .reduce((most, name) => Math.max(most, readWatermark(directory, name.slice(0, -ending.length), topic, files)), 0)
}

/** Upper bound of the bytes that are set aside, per spool. */
const SET_ASIDE_BYTES = 256 * 1024 * 1024

/**
 * Stores bytes that could not be read or shipped, for an operator. False when the bound is reached and nothing was
 * stored.
 */
export const setAside = (
  directory: string,
  name: string,
  bytes: Uint8Array | string,
  files: Files = nodeFiles,
): boolean => {
  const folder = join(directory, 'set-aside')
  files.makeDirectory(folder)
  const size = files.list(folder).reduce((sum, file) => sum + (files.size(join(folder, file)) ?? 0), 0)
  if (size + bytes.length > SET_ASIDE_BYTES) return false
  files.append(join(folder, name), bytes)
  return true
}

const replaceFile = (path: string, text: string, files: Files): void => {
  const beside = `${path}.${process.pid}.new`
  const bytes = Buffer.from(text)
  const descriptor = files.create(beside)
  try {
    writeWhole(files, descriptor, bytes)
  } finally {
    files.close(descriptor)
  }
  failpoint('watermark_unnamed')
  files.rename(beside, path)
}
