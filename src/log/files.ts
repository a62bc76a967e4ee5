// The file operations of the spool, as a port: tests inject full and failing disks, the simulation a whole disk.
import {
  closeSync,
  fdatasync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { codeOf } from '../lib/process/error-code.ts'
import { dropCached, startWriting } from '../lib/process/page-cache.ts'
import { syncFolder } from '../lib/process/sync-folder.ts'
import { type DirectoryLock, tryLock } from './lock.ts'

export interface Files {
  /** Creates an empty file, open for writing; an existing one is truncated. */
  create(path: string): number
  /** Bytes written at that position; may be fewer than requested. */
  write(descriptor: number, bytes: Uint8Array, start: number, length: number, position: number): number
  truncate(descriptor: number, length: number): void
  /**
   * Starts writing these bytes of a file to the disk without waiting; they are no more durable than before. A hint:
   * failures are ignored.
   */
  startWriting(path: string, start: number, length: number): void
  /** Lets the kernel drop these bytes of a file from its page cache; dirty pages stay. A hint as well. */
  dropCached(path: string, start: number, length: number): void
  /** fdatasync on the thread pool. After it failed once, the descriptor must never be synced again. */
  sync(descriptor: number): Promise<void>
  /** Makes the directory's entries durable. */
  syncDirectory(path: string): void
  close(descriptor: number): void
  rename(from: string, to: string): void
  remove(path: string): void
  /** Bytes that can still be written below this directory. */
  freeBytes(directory: string): number
  /** Names of the entries of a directory. */
  list(directory: string): string[]
  /** Of a file or any other entry; null: it does not exist. */
  size(path: string): number | null
  /** Opens a file for reading. */
  open(path: string): number
  read(descriptor: number, bytes: Uint8Array, start: number, length: number, position: number): number
  readWhole(path: string): Buffer
  /** Truncates a file without a writer. */
  cut(path: string, length: number): void
  /** Appends to a file, or creates it; durable. */
  append(path: string, bytes: Uint8Array | string): void
  /** With its parents; an existing one stays as it is. */
  makeDirectory(path: string): void
  removeDirectory(path: string): void
  /** Locks a directory for the life of this process; null when it is locked already. */
  lock(directory: string): DirectoryLock | null
}

export const nodeFiles: Files = {
  create: (path) => openSync(path, 'w', 0o600),
  write: (descriptor, bytes, start, length, position) => writeSync(descriptor, bytes, start, length, position),
  truncate: ftruncateSync,
  startWriting,
  dropCached,
  sync: (descriptor) =>
    new Promise((resolve, reject) => fdatasync(descriptor, (error) => (error === null ? resolve() : reject(error)))),
  syncDirectory: syncFolder,
  close: closeSync,
  rename: renameSync,
  remove: unlinkSync,
  freeBytes(directory) {
    const { bavail, bsize } = statfsSync(directory)
    return bavail * bsize
  },
  list: (directory) => readdirSync(directory),
  size: (path) => statSync(path, { throwIfNoEntry: false })?.size ?? null,
  open: (path) => openSync(path, 'r'),
  read: (descriptor, bytes, start, length, position) => readSync(descriptor, bytes, start, length, position),
  readWhole: (path) => readFileSync(path),
  cut: truncateSync,
  append: (path, bytes) => writeFileSync(path, bytes, { flag: 'a', mode: 0o600, flush: true }),
  makeDirectory: (path) => mkdirSync(path, { recursive: true, mode: 0o700 }),
  removeDirectory: (path) => rmSync(path, { recursive: true, force: true }),
  lock: tryLock,
}

/** The short code of a failed file operation: `ENOSPC`, `EIO`, ..., else the text of the error. */
export const fileErrorCode = (error: unknown): string => codeOf(error) ?? String(error)

/** Writes all bytes at the start of a file; throws the error of the disk. */
export const writeWhole = (files: Files, descriptor: number, bytes: Uint8Array): void => {
  for (let at = 0; at < bytes.length; ) at += files.write(descriptor, bytes, at, bytes.length - at, at)
}

/** For a file that is created again under the same name. */
export const removeQuietly = (files: Files, path: string): void => {
  try {
    files.remove(path)
  } catch {
    // It is truncated when the name is used again.
  }
}
