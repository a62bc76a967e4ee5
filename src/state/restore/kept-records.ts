// The last records of the control topic in a data folder, as bytes: what a start folds while the log does not respond,
// and what `gateway log restore` appends again when the log has lost them. Two files, the newer one after the older;
// each a row of frames (length, CRC-32C, counted or not, offset, log time, value). This is the format and its reader.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { crc32c } from '../../lib/compression/compression.ts'
import { sha256Hex } from '../../lib/crypto/digest.ts'
import { codeOf } from '../../lib/process/error-code.ts'
import type { ChainPosition } from '../position-witness.ts'

export interface StoredRecord {
  readonly offset: number
  /** When the log took it, Unix milliseconds. Null: a frame of an earlier build, which did not store it. */
  readonly atMs: number | null
  /** A decision that counted. */
  readonly counted: boolean
  readonly value: Uint8Array | null
}

const HEAD_BYTES = 20
const COUNTED = 1
const NO_VALUE = 2
/**
 * Set in the length of a frame with a log time (eight bytes before the value). An earlier build takes such a length for
 * damage, so after a downgrade it begins its files anew.
 */
const TIMED = 0x8000_0000
const TIME_BYTES = 8
/** Longer ones are damage: no broker takes a record of this size. */
const MAX_VALUE_BYTES = 16 * 1024 * 1024

/** The files of the newer and of the older records. */
export const recordFiles = (dataDir: string): { readonly newer: string; readonly older: string } => ({
  newer: join(dataDir, 'control-records'),
  older: join(dataDir, 'control-records.older'),
})

export const recordFrame = ({ offset, atMs, counted, value }: StoredRecord): Uint8Array => {
  const valueFrom = HEAD_BYTES + (atMs === null ? 0 : TIME_BYTES)
  const frame = Buffer.allocUnsafe(valueFrom + (value?.length ?? 0))
  frame.writeUInt32LE((atMs === null ? 0 : TIMED) + (value?.length ?? 0), 0)
  frame.writeUInt32LE((counted ? COUNTED : 0) | (value === null ? NO_VALUE : 0), 8)
  frame.writeDoubleLE(offset, 12)
  if (atMs !== null) frame.writeDoubleLE(atMs, HEAD_BYTES)
  if (value !== null) frame.set(value, valueFrom)
  frame.writeUInt32LE(crc32c(frame, 8), 4)
  return frame
}

export interface StoredFile {
  /** Offsets follow each other. */
  readonly records: readonly StoredRecord[]
  /** The length before the first damaged or torn frame. */
  readonly bytes: number
}

const NOTHING: StoredFile = { records: [], bytes: 0 }

/** The records of one file up to its first error: a crash may have torn the last frame. */
export const readStoredFile = (path: string): StoredFile => {
  const bytes = readOrNull(path)
  if (bytes === null) return NOTHING
  const records: StoredRecord[] = []
  let at = 0
  while (bytes.length - at >= HEAD_BYTES) {
    const head = bytes.readUInt32LE(at)
    const isTimed = head >= TIMED
    const length = isTimed ? head - TIMED : head
    const valueFrom = at + HEAD_BYTES + (isTimed ? TIME_BYTES : 0)
    const end = valueFrom + length
    if (length > MAX_VALUE_BYTES || end > bytes.length) break
    if (crc32c(bytes, at + 8, end) !== bytes.readUInt32LE(at + 4)) break
    const flags = bytes.readUInt32LE(at + 8)
    const offset = bytes.readDoubleLE(at + 12)
    if (records.length > 0 && offset !== records.at(-1)!.offset + 1) break
    const atMs = isTimed ? bytes.readDoubleLE(at + HEAD_BYTES) : null
    const value = (flags & NO_VALUE) === 0 ? bytes.subarray(valueFrom, end) : null
    records.push({ offset, atMs, counted: (flags & COUNTED) !== 0, value })
    at = end
  }
  return { records, bytes: at }
}

/**
 * All stored records, the oldest first, offsets following each other. Throws when a file is there and cannot be read.
 */
export const readStoredRecords = (dataDir: string): readonly StoredRecord[] => {
  const files = recordFiles(dataDir)
  const older = readStoredFile(files.older).records
  const newer = readStoredFile(files.newer).records
  if (newer.length === 0) return older
  const follows = older.at(-1)?.offset === newer[0]!.offset - 1
  return follows ? [...older, ...newer] : newer
}

/** The position that stored records prove: the newest decision that counted. Null when there is none. */
export const positionOf = (records: readonly StoredRecord[]): ChainPosition | null => {
  const last = records.findLast(({ counted }) => counted)
  return last === undefined ? null : { next: last.offset + 1, tip: sha256Hex(last.value!) }
}

/** The position that the stored records of a data folder prove. */
export const storedPosition = (dataDir: string): ChainPosition | null => positionOf(readStoredRecords(dataDir))

const readOrNull = (path: string): Buffer | null => {
  try {
    return readFileSync(path)
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null
    throw error
  }
}
