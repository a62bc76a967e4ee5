// A file that only takes room: given up when the disk is full, so that requests in flight can still be recorded.
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import type { Files } from '../files.ts'

const CHUNK_BYTES = 1024 * 1024
export const BALLAST_BYTES = 8 * 1024 * 1024

/** What must be free before the ballast is made: requests that follow need room too. */
export const roomOf = (ballastBytes: number): number => 2 * ballastBytes

export interface Ballast {
  /** Whether the ballast is in place (created now if there is room for it twice). */
  ensure(): boolean
  /** Frees its room; false when there was none. */
  release(): boolean
}

const pathIn = (directory: string) => join(directory, 'ballast')

/** Frees the room of a directory's ballast; false when there was none. */
export const releaseBallast = (directory: string, files: Files): boolean => {
  const path = pathIn(directory)
  if (files.size(path) === null) return false
  try {
    files.remove(path)
    return true
  } catch {
    // A disk that cannot delete has no room to free.
    return false
  }
}

export const makeBallast = (directory: string, bytes: number, files: Files): Ballast => {
  const path = pathIn(directory)
  const release = () => releaseBallast(directory, files)
  return {
    release,
    ensure() {
      if (bytes === 0) return true
      const size = files.size(path)
      if (size === bytes) return files.freeBytes(directory) > bytes
      if (files.freeBytes(directory) < roomOf(bytes)) return false
      const descriptor = files.create(path)
      try {
        // Random, so that no file system compresses it away.
        const chunk = randomBytes(Math.min(CHUNK_BYTES, bytes))
        let left = bytes
        while (left > 0) left -= files.write(descriptor, chunk, 0, Math.min(chunk.length, left), bytes - left)
      } catch (error) {
        files.close(descriptor)
        release()
        throw error
      }
      files.close(descriptor)
      return true
    },
  }
}
