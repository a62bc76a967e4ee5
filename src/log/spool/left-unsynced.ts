// Records that a dead process wrote and may not have synced: the files hold them as long as the machine runs. A start
// reads them and continues from them, so it makes them durable first; otherwise a power cut would take a settlement
// whose admission no later head carries.

import { sleep } from '../../lib/event-loop/sleep.ts'
import { codeOf } from '../../lib/process/error-code.ts'
import { type Files, removeQuietly, writeWhole } from '../files.ts'
import {
  forgetRefusal,
  listSegments,
  noteRefusal,
  readSegmentHeader,
  type SegmentFile,
  wasRefused,
} from '../segments/segments.ts'
import { releaseBallast } from './ballast.ts'

/** A disk that refuses so many attempts is taken to be broken. */
const TRIES = 6
const APART_MS = 500

/**
 * Resolves when everything in the segments of a spool is durable, with the number of refused syncs. The spool must be
 * locked. Throws the error of the disk.
 */
export const syncSegments = async (directory: string, files: Files, pause = sleep): Promise<number> => {
  const isRefused = wasRefused(directory, files)
  let refusals = 0
  for (const { path } of unsyncedSegments(listSegments(directory, files), files)) {
    if (!isRefused && (await synced(path, files))) continue
    if (!isRefused) {
      refusals++
      noteRefusal(directory, files)
    }
    for (let left = TRIES - 1; !(await rewritten(path, directory, files, left)); left--) {
      refusals++
      await pause(APART_MS)
    }
  }
  forgetRefusal(directory, files)
  return refusals
}

/** The newest segments, back to the head before which everything is durable. Oldest first. */
const unsyncedSegments = (segments: readonly SegmentFile[], files: Files): SegmentFile[] => {
  const found: SegmentFile[] = []
  let from: number | null = null
  for (const segment of segments.toReversed()) {
    found.unshift(segment)
    const header = readSegmentHeader(segment.path, files)
    if (header === null) continue
    from ??= header.unsynced ?? header.record
    // A segment that begins with this record may be a copy of the end of the previous one.
    if (header.unsynced === undefined || header.record < from) break
  }
  return found
}

/** False: the disk refused, and the same file must not be synced again: the kernel may mark its lost pages clean. */
const synced = async (path: string, files: Files): Promise<boolean> => {
  const descriptor = files.open(path)
  try {
    await files.sync(descriptor)
    return true
  } catch {
    return false
  } finally {
    files.close(descriptor)
  }
}

/**
 * Writes a segment again, in place of the old file; on a full disk in the room of the ballast. False: the disk
 * refused, and `left` attempts remain; throws when none remain.
 */
const rewritten = async (path: string, directory: string, files: Files, left: number): Promise<boolean> => {
  const bytes = files.readWhole(path)
  let descriptor: number | null = null
  try {
    descriptor = files.create(`${path}.new`)
    writeWhole(files, descriptor, bytes)
    await files.sync(descriptor)
    files.rename(`${path}.new`, path)
    files.syncDirectory(directory)
    return true
  } catch (error) {
    removeQuietly(files, `${path}.new`)
    if (codeOf(error) === 'ENOSPC') releaseBallast(directory, files)
    if (left === 0) throw error
    return false
  } finally {
    if (descriptor !== null) files.close(descriptor)
  }
}
