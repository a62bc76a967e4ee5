// Snapshots of the control state, as the snapshot thread of a data folder leaves them: kept as text, so that a start
// shares no object with the process before it.
import { ControlState } from '../../src/domain/control.ts'
import type { FoldCounts } from '../../src/state/fold.ts'
import type { LoadedSnapshot } from '../../src/state/history/snapshot.ts'
import type { LiveChain } from '../../src/state/live-chain.ts'

export interface Snapshot {
  readonly next: number
  readonly counts: FoldCounts
  readonly text: string
}

const NO_SNAPSHOT: LoadedSnapshot = { start: null, witness: null, problem: null }

/** The state as a process has it now. */
export const snapshotOf = (live: LiveChain): Snapshot => {
  const { next } = live
  const { tip, logAtMs, chainId, digest, counts } = live.status()
  const rows = [...live.state.tables()].flatMap((table) => [...table.rows()].map(([id, row]) => [table.name, id, row]))
  return { next, counts, text: JSON.stringify({ tip, logAtMs, chainId, digest, rows }) }
}

/** As a start reads it. */
export const loaded = (snapshot: Snapshot | null): LoadedSnapshot => {
  if (snapshot === null) return NO_SNAPSHOT
  const { next, counts, text } = snapshot
  const { tip, logAtMs, chainId, digest, rows } = JSON.parse(text) as {
    readonly tip: string
    readonly logAtMs: number
    readonly chainId: string
    readonly digest: string
    readonly rows: readonly [string, string, unknown][]
  }
  const state = new ControlState(null, digest)
  for (const [table, id, row] of rows) state.restore(table, id, row)
  return { start: { state, next, tip, logAtMs, counts }, witness: { next, tip, chainId }, problem: null }
}
