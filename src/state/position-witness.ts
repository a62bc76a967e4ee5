// The position of the control topic of a data folder: a small file beside the snapshot, always newer than it. A log
// that ends before it was cut, or is an older copy: keys that were revoked since would work again.
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
export const writePosition = (dataDir: string, { next, tip }: ChainPosition): void => {
  const draft = join(dataDir, `${FILE}.draft`)
  try {
    writeFileSync(draft, `${next} ${tip}\n`, { mode: 0o600 })
    renameSync(draft, join(dataDir, FILE))
  } catch (error) {
    rmSync(draft, { force: true })
    throw error
  }
}

/**
 * Records the position once a second while it changes, and a last time when it is stopped. One for each data folder.
 */
export const notePositions = (live: LiveChain, dataDir: string, diagnostics: Diagnostics): (() => void) => {
  let recorded = -1
  const record = () => {
    const { next, tip } = live
    if (next === recorded || live.status().phase !== 'live') return
    try {
      writePosition(dataDir, { next, tip })
      recorded = next
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
