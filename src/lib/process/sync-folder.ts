import { closeSync, fsyncSync, openSync } from 'node:fs'

/**
 * Makes the entries of a folder durable: a file that was created, renamed or removed in it stays so after a power cut.
 */
export const syncFolder = (path: string): void => {
  const folder = openSync(path, 'r')
  try {
    fsyncSync(folder)
  } finally {
    closeSync(folder)
  }
}
