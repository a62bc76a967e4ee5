// Hints to the kernel about its page cache: when it writes pages of a file, when it may drop them. Linux only; no
// effect elsewhere.
import { closeSync, openSync } from 'node:fs'
import { systemFunctions } from './system-library.ts'

const SYNC_FILE_RANGE_WRITE = 2
const POSIX_FADV_DONTNEED = 4

interface System {
  sync_file_range(fd: number, start: number, length: number, flags: number): number
  posix_fadvise(fd: number, start: number, length: number, advice: number): number
}

const system =
  process.platform === 'linux'
    ? systemFunctions<System>({
        sync_file_range: { args: ['i32', 'i64', 'i64', 'u32'], returns: 'i32' },
        posix_fadvise: { args: ['i32', 'i64', 'i64', 'i32'], returns: 'i32' },
      })
    : null

/**
 * Starts writing these bytes to the disk without waiting, unless the disk's queue is full. Makes nothing durable:
 * neither the file's length nor the disk's own cache is written.
 */
export const startWriting = (path: string, start: number, length: number): void => {
  if (system === null) return
  onFile(path, (fd) => system.sync_file_range(fd, start, length, SYNC_FILE_RANGE_WRITE))
}

/**
 * Drops the cached whole pages of these bytes. Pages that are not on the disk yet stay; a later read of the others
 * reads the disk.
 */
export const dropCached = (path: string, start: number, length: number): void => {
  if (system === null) return
  onFile(path, (fd) => system.posix_fadvise(fd, start, length, POSIX_FADV_DONTNEED))
}

const onFile = (path: string, hint: (fd: number) => void): void => {
  let fd: number
  try {
    fd = openSync(path, 'r')
  } catch {
    // The file is gone, and its cached pages with it; or no descriptor is left, and the pages stay.
    return
  }
  hint(fd)
  closeSync(fd)
}
