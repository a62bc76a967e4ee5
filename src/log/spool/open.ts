// The spool of one process: its records are on disk before their callers get a result.
import { randomBytes } from 'node:crypto'
import { type Files, nodeFiles } from '../files.ts'
import { EarlierRecords } from '../port.ts'
import { listSegments, refuseOtherFormat, type SpoolTopic } from '../segments/segments.ts'
import { type ClaimedSpool, claimFreeSpools, claimSpool, spoolDirectory, spoolNumbers } from './directory.ts'
import { FileSpool } from './file-spool.ts'
import { syncSegments } from './left-unsynced.ts'
import type { OpenAdmission } from './open-admissions.ts'
import type { Spool } from './port.ts'

export type Durability = 'process' | 'host' | 'log'

/**
 * When a segment may be deleted. `shipped`: the sender passed it. `projected`: every named read model passed it and it
 * is older than the retention (null: retained for ever).
 */
export type SpoolKeeping =
  | { readonly until: 'shipped' }
  | {
      readonly until: 'projected'
      readonly consumers: Readonly<Record<SpoolTopic, readonly string[]>>
      readonly retentionMs: number | null
    }

export interface SpoolOptions {
  readonly dataDir: string
  /** `log` without a sender (embedded) is `host`: there the segments are the log. */
  readonly durability: Durability
  readonly keeping: SpoolKeeping
  readonly nowMs: () => number
  /** 64 MiB when not given. */
  readonly segmentBytes?: number
  /** 8 MiB when not given; 0 for none. */
  readonly ballastBytes?: number
  /** Admission closes when so many bytes wait for the consumers; 8 GiB when not given. */
  readonly backlogBytes?: number
  readonly files?: Files
  /** Makes the id of this start of the process; random when not given. */
  readonly newEpoch?: () => string
  /** The first record that another reader still needs, whatever the watermarks are. */
  retainFrom?(): number
  /** Runs a task at the end of this iteration of the event loop; on the serving thread when not given. */
  atEnd?(task: () => void): void
  /** After each write: everything below `end` is in the file. */
  onFlushed?(end: number): void
}

export interface SpoolStatus {
  readonly number: number
  readonly records: number
  readonly writeFailures: number
  /** Since this start. */
  readonly syncFailures: number
  /** Records whose callers got an error because they could not be recorded. */
  readonly rejected: number
  readonly openAdmissions: number
  /** Found at start. */
  readonly damaged: number
  readonly tornBytes: number
}

export interface LocalSpool extends Spool {
  readonly number: number
  readonly directory: string
  readonly files: Files
  /** Open admissions of earlier processes: `upkeep/budgets/orphans.ts` settles them. */
  readonly openAtStart: readonly OpenAdmission[]
  /** The number of the next record. */
  readonly end: number
  /** The log has every record below `record`: resolves the waiters of these, deletes segments. Also called by tests. */
  shipped(record: number): void
  /** Checks the disk and the watermarks, deletes segments, reopens admission. Runs once a second by itself. */
  refresh(): void
  status(): SpoolStatus
  /** Writes what is pending and releases the directory; `remove` deletes it (an adopted spool that is shipped). */
  close(options?: { readonly remove?: boolean }): Promise<void>
}

/**
 * Claims the lowest-numbered free spool under `dataDir` (or makes the next), recovers it, and opens it for this
 * process. Throws EarlierRecords where an earlier build wrote any spool there.
 */
export const openSpool = async (options: SpoolOptions): Promise<LocalSpool> => {
  refuseEarlierSpools(options.dataDir, options.files)
  return openClaimed(claimSpool(options.dataDir, options.files), options)
}

/**
 * Claims every spool of a dead process. Each is open for settling its orphans; on Kafka the sender drains it and
 * `close({ remove: true })` ends it, embedded `close()` leaves it to be read and claimed again. Call it once the
 * process has opened its own spool.
 */
export const adoptFreeSpools = async (options: SpoolOptions): Promise<LocalSpool[]> => {
  // No sender ships an adopted spool while its orphans are being settled, so they must not wait for that.
  const durability = options.durability === 'log' ? 'host' : options.durability
  const adoption: SpoolOptions = { ...options, durability, ballastBytes: 0, onFlushed: undefined }
  const claimed = claimFreeSpools(options.dataDir, options.files)
  const opened = await Promise.allSettled(claimed.map((one) => openClaimed(one, adoption)))
  const spools = opened.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  const failed = opened.find((one) => one.status === 'rejected')
  if (failed === undefined) return spools
  await Promise.all(spools.map((spool) => spool.close()))
  throw failed.reason
}

/** Throws EarlierRecords where an earlier build wrote a spool of the folder: it would never be adopted. */
const refuseEarlierSpools = (dataDir: string, files: Files = nodeFiles): void => {
  for (const number of spoolNumbers(dataDir, files)) {
    try {
      refuseEarlierSpool(spoolDirectory(dataDir, number), files)
    } catch (error) {
      // Another process removes its spool and its segments meanwhile. A disk that fails is reported by the process that
      // opens the spool.
      if (error instanceof EarlierRecords) throw error
    }
  }
}

const refuseEarlierSpool = (directory: string, files: Files): void => {
  const [oldest] = listSegments(directory, files)
  if (oldest !== undefined) refuseOtherFormat(oldest.path, files)
}

/** Recovers a claimed spool; releases one that cannot be opened. */
const openClaimed = async (claimed: ClaimedSpool, options: SpoolOptions): Promise<LocalSpool> => {
  const { durability, keeping, files = nodeFiles, newEpoch } = options
  // Embedded, the segments are the log.
  const isHost = durability === 'host' || (durability === 'log' && keeping.until === 'projected')
  try {
    refuseEarlierSpool(claimed.directory, files)
    const refusedSyncs = isHost ? await syncSegments(claimed.directory, files) : 0
    const epoch = newEpoch?.() ?? randomBytes(8).toString('hex')
    return new FileSpool(claimed, epoch, isHost ? { ...options, durability: 'host' } : options, refusedSyncs)
  } catch (error) {
    claimed.lock.release()
    throw error
  }
}
