// What the kernel keeps of files in memory and on the disk: when it writes them, when it may let them go. Hints, on Linux; nothing elsewhere.
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

/** Begins to write these bytes to the disk and does not wait for it, unless the disk's queue is full. Makes nothing durable: neither lengths nor the disk's own cache are written. */
export const startWriting = (path: string, start: number, length: number): void => {
  if (system === null) return
  onFile(path, (fd) => system.sync_file_range(fd, start, length, SYNC_FILE_RANGE_WRITE))
}

/** Lets go of what is cached of these bytes, in whole pages. Bytes that are not on the disk yet stay; a later read of the others is one from the disk. */
export const forgetCached = (path: string, start: number, length: number): void => {
  if (system === null) return
  onFile(path, (fd) => system.posix_fadvise(fd, start, length, POSIX_FADV_DONTNEED))
}

const onFile = (path: string, hint: (fd: number) => void): void => {
  let fd: number
  try {
    fd = openSync(path, 'r')
  } catch {
    // It is gone, and with it what was cached; or there are no descriptors left, and it stays.
    return
  }
  hint(fd)
  closeSync(fd)
}
