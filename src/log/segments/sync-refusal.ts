// A word left in a spool whose process was refused a sync: the kernel tells a failure once, and may call pages clean that are on no disk. Whoever comes next must
// not ask it about those files again, but write them anew.
import { join } from 'node:path'
import { type Files, removeQuietly } from '../files.ts'

const pathIn = (directory: string): string => join(directory, 'sync-refused')

/** Where it cannot be noted the next start syncs as if nothing had been refused. */
export const noteRefusal = (directory: string, files: Files): void => {
  const path = pathIn(directory)
  if (files.size(path) !== null) return
  try {
    files.close(files.create(path))
  } catch {
    // Said above. The refusal itself is counted and told by who met it.
  }
}

export const wasRefused = (directory: string, files: Files): boolean => files.size(pathIn(directory)) !== null

/** All that was in doubt has been written anew. */
export const forgetRefusal = (directory: string, files: Files): void => {
  if (wasRefused(directory, files)) removeQuietly(files, pathIn(directory))
}
