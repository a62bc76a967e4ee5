// What the kernel keeps of files in memory and on the disk: when it writes them, when it may let them go, what room it makes for them. Hints, on Linux; nothing elsewhere.
import { closeSync, openSync } from 'node:fs'
import { systemFunctions } from './system-library.ts'

const SYNC_FILE_RANGE_WRITE = 2
const POSIX_FADV_DONTNEED = 4
const FALLOC_FL_KEEP_SIZE = 1

interface System {
  sync_file_range(fd: number, start: number, length: number, flags: number): number
  posix_fadvise(fd: number, start: number, length: number, advice: number): number
  fallocate(fd: number, mode: number, start: number, length: number): number
}

const system =
  process.platform === 'linux'
    ? systemFunctions<System>({
        sync_file_range: { args: ['i32', 'i64', 'i64', 'u32'], returns: 'i32' },
        fallocate: { args: ['i32', 'i32', 'i64', 'i64'], returns: 'i32' },
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

/** Takes room on the disk for these bytes of a file, whose length stays; file systems that cannot do it do nothing. */
export const reserveRoom = (fd: number, start: number, length: number): void => {
  system?.fallocate(fd, FALLOC_FL_KEEP_SIZE, start, length)
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
