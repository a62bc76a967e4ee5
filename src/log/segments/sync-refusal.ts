// A marker file in a spool whose process was refused a sync. The kernel reports a failed sync once, and may mark pages
// clean that are on no disk. The next process must not sync those files, but write them again.
import { join } from 'node:path'
import { type Files, removeQuietly } from '../files.ts'

const pathIn = (directory: string): string => join(directory, 'sync-refused')

/** Writes the marker. Without it the next start syncs as if no sync had been refused. */
export const noteRefusal = (directory: string, files: Files): void => {
  const path = pathIn(directory)
  if (files.size(path) !== null) return
  try {
    files.close(files.create(path))
  } catch {
    // See above. The spool that was refused counts and reports the refusal.
  }
}

export const wasRefused = (directory: string, files: Files): boolean => files.size(pathIn(directory)) !== null

/** All records in doubt have been written again. */
export const forgetRefusal = (directory: string, files: Files): void => {
  if (wasRefused(directory, files)) removeQuietly(files, pathIn(directory))
}
