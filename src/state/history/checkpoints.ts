// Snapshots for states of the past: the folder `history` of a data folder, a file for each, named by its next offset.
// They are shortcuts: without them a state of the past is folded from the first record.
import { linkSync, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { codeOf } from '../../lib/process/error-code.ts'
import type { FoldStart } from '../fold.ts'
import { readSnapshot, snapshotPath } from './snapshot.ts'

const FOLDER = 'history'
const NAME = /^(\d{1,15})\.snapshot$/
/** Bounds of their number and of their bytes; beyond them the one goes that leaves the smallest gap. */
const MOST_CHECKPOINTS = 16
const MOST_BYTES = 1024 * 1024 * 1024
/** Snapshots that are nearer to each other save nothing. */
export const CHECKPOINT_RECORDS = 5_000

export class Checkpoints {
  readonly #folder: string

  constructor(
    readonly dataDir: string,
    readonly macKey: Uint8Array,
    readonly everyRecords = CHECKPOINT_RECORDS,
  ) {
    this.#folder = join(dataDir, FOLDER)
  }

  /** Offsets, in rising order. */
  offsets(): readonly number[] {
    try {
      const numbers = readdirSync(this.#folder).map((name) => Number(NAME.exec(name)?.[1] ?? Number.NaN))
      return numbers.filter((offset) => !Number.isNaN(offset)).sort((a, b) => a - b)
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return []
      throw error
    }
  }

  /**
   * Retains the snapshot that was just written, which holds everything below `next`, unless one is near. It is a hard
   * link: it takes no time and, at first, no room.
   */
  retain(next: number): void {
    const offsets = this.offsets()
    if (next - (offsets.findLast((offset) => offset <= next) ?? 0) < this.everyRecords) return
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 })
    linkSync(snapshotPath(this.dataDir), this.#path(next))
    this.#thin([...offsets, next].sort((a, b) => a - b))
  }

  /**
   * The state of the newest one that is not beyond `end` and that `fits`; null when there is none. Damaged ones are
   * removed.
   */
  async before(end: number, fits: (next: number, tip: string) => boolean): Promise<FoldStart | null> {
    for (const next of this.offsets()
      .filter((offset) => offset <= end)
      .toReversed()) {
      const { start } = await readSnapshot(this.#path(next), this.macKey)
      if (start !== null && start.next === next && fits(next, start.tip)) return start
      rmSync(this.#path(next), { force: true })
    }
    return null
  }

  #thin(offsets: number[]): void {
    const bytes = (offset: number) => statSync(this.#path(offset), { throwIfNoEntry: false })?.size ?? 0
    let total = offsets.reduce((sum, offset) => sum + bytes(offset), 0)
    while (offsets.length > 1 && (offsets.length > MOST_CHECKPOINTS || total > MOST_BYTES)) {
      // Never the newest: the next gap is measured from it.
      const gaps = offsets.slice(0, -1).map((_, at) => offsets[at + 1]! - (offsets[at - 1] ?? 0))
      const [gone] = offsets.splice(gaps.indexOf(Math.min(...gaps)), 1)
      total -= bytes(gone!)
      rmSync(this.#path(gone!), { force: true })
    }
  }

  #path(next: number): string {
    return join(this.#folder, `${next}.snapshot`)
  }
}
