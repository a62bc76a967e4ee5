// The position of the control topic of a data folder: a small file beside the snapshot, always newer than it. A log
// that ends before it was cut, or is an older copy: keys that were revoked since would work again. Beside it, when the
// end of the log was last confirmed: how old the state of a start without the log is.
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Diagnostics } from '../lib/process/diagnostics.ts'
import { codeOf } from '../lib/process/error-code.ts'
import type { LiveChain } from './live-chain.ts'

export interface ChainPosition {
  /** The next offset. */
  readonly next: number
  /** The last counted decision before it. */
  readonly tip: string
}

const FILE = 'chain-position'
const LINE = /^(\d{1,15}) ([0-9a-f]{64})\n$/
const CONFIRMED_FILE = 'chain-confirmed'
const CONFIRMED_LINE = /^(\d{1,15})\n$/
const EVERY_MS = 1_000

/** The last recorded position, or null. Throws when the file is there and cannot be read. */
export const readPosition = (dataDir: string): ChainPosition | null => {
  try {
    const [, next, tip] = LINE.exec(readFileSync(join(dataDir, FILE), 'latin1')) ?? []
    return next === undefined || tip === undefined ? null : { next: Number(next), tip }
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null
    throw error
  }
}

/**
 * Written beside, then renamed, without a sync: after a power cut an older one may be there, never one that is ahead of
 * the log.
 */
export const writePosition = (dataDir: string, { next, tip }: ChainPosition): void =>
  replaceFile(dataDir, FILE, `${next} ${tip}\n`)

/**
 * When the end of the log was last confirmed, Unix milliseconds; null: it was never recorded. A file of its own, since
 * earlier builds read the position as one line.
 */
export const readConfirmed = (dataDir: string): number | null => {
  try {
    const [, atMs] = CONFIRMED_LINE.exec(readFileSync(join(dataDir, CONFIRMED_FILE), 'latin1')) ?? []
    return atMs === undefined ? null : Number(atMs)
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null
    throw error
  }
}

/** Written as the position is. */
export const writeConfirmed = (dataDir: string, atMs: number): void =>
  replaceFile(dataDir, CONFIRMED_FILE, `${Math.floor(atMs)}\n`)

const replaceFile = (dataDir: string, name: string, text: string): void => {
  const draft = join(dataDir, `${name}.draft`)
  try {
    writeFileSync(draft, text, { mode: 0o600 })
    renameSync(draft, join(dataDir, name))
  } catch (error) {
    rmSync(draft, { force: true })
    throw error
  }
}

/** Confirmations that lie closer together are one: the time is computed from two clocks. */
const SAME_MS = 500

/**
 * Records the position, and when the end of the log was confirmed, once a second while they change, and a last time
 * when it is stopped. One for each data folder.
 */
export const notePositions = (
  live: LiveChain,
  dataDir: string,
  diagnostics: Diagnostics,
  nowMs: () => number = Date.now,
): (() => void) => {
  let recorded = -1
  let confirmedAtMs = 0
  const record = () => {
    const { next, tip } = live
    const { phase, staleMs } = live.status()
    if (phase !== 'live') return
    try {
      if (next !== recorded) writePosition(dataDir, { next, tip })
      recorded = next
      const atMs = nowMs() - staleMs
      if (Math.abs(atMs - confirmedAtMs) > SAME_MS) writeConfirmed(dataDir, atMs)
      confirmedAtMs = atMs
    } catch (error) {
      diagnostics.warn('position_not_noted', { error })
    }
  }
  const timer = setInterval(record, EVERY_MS)
  timer.unref()
  void live.ready().then(record, () => undefined) // refused: there is nothing to record
  return () => {
    clearInterval(timer)
    record()
  }
}
