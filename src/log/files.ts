// The few file operations that the spool makes, as a port: tests inject full and failing disks here.
import { closeSync, fdatasync, ftruncateSync, openSync, renameSync, statfsSync, unlinkSync, writeSync } from 'node:fs'
import { codeOf } from '../lib/error-code.ts'
import { syncFolder } from '../lib/sync-folder.ts'

export interface Files {
  /** Makes an empty file, open for writing; one of that name is emptied. */
  create(path: string): number
  /** Bytes written, which may be fewer than asked for. */
  write(descriptor: number, bytes: Uint8Array, start: number, length: number): number
  truncate(descriptor: number, length: number): void
  /** fdatasync on the thread pool. After it failed once, the descriptor must never be synced again. */
  sync(descriptor: number): Promise<void>
  /** Makes the directory's entries durable. */
  syncDirectory(path: string): void
  close(descriptor: number): void
  rename(from: string, to: string): void
  remove(path: string): void
  /** Bytes that can still be written below this directory. */
  freeBytes(directory: string): number
}

export const nodeFiles: Files = {
  create: (path) => openSync(path, 'w', 0o600),
  write: (descriptor, bytes, start, length) => writeSync(descriptor, bytes, start, length),
  truncate: ftruncateSync,
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
}

/** What a failed file operation says, short: `ENOSPC`, `EIO`, ..., else the error's text. */
export const fileErrorCode = (error: unknown): string => codeOf(error) ?? String(error)
