// Snapshots of the folded control state: a shortcut for the next start, and a witness of the log's position. JSON
// lines: a header, rows in chunks, a MAC over all of it. Written by the snapshot thread alone.
import { closeSync, mkdirSync, openSync, readdirSync, readSync, renameSync, rmSync, statSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { join } from 'node:path'
import { CHAIN_ROW } from '../../domain/chain.ts'
import { ControlState, EVENT_VERSION, FOLD_VERSION } from '../../domain/control.ts'
import { RowSetDigest } from '../../domain/kernel/tables.ts'
import { codeOf } from '../../lib/process/error-code.ts'
import { failpoint } from '../../lib/process/failpoints.ts'
import { syncFolder } from '../../lib/process/sync-folder.ts'
import { type Static, t, Value } from '../../lib/schema/schema.ts'
import type { ChainFold, FoldStart } from '../fold.ts'
import { isWhole, linesOf, SnapshotWriter } from './snapshot-file.ts'

const FILE = 'control.snapshot'
const CHUNK_ROWS = 256
const STALE_DRAFT_MS = 600_000

const Count = t.Integer({ minimum: 0 })
const Header = t.Object({
  gatelog_snapshot: t.Literal(1),
  fold_version: t.Integer(),
  /** Event version of the build that wrote it; absent in snapshots of earlier builds. */
  event_version: t.Optional(t.Integer()),
  next: Count,
  tip: t.String({ pattern: '^[0-9a-f]{64}$' }),
  chain_id: t.String(),
  log_at_ms: Count,
  digest: t.String(),
  counts: t.Object({ counted: Count, lost: Count, unreadable: Count, forged: Count, malformed: Count }),
})

/**
 * What a snapshot proves even when its rows cannot be used: the log once reached `next`, and the decision `tip` counted
 * in it.
 */
export interface Witness {
  readonly next: number
  readonly tip: string
  readonly chainId: string
}

export interface LoadedSnapshot {
  /** Where to continue, or null: fold from the start. */
  readonly start: FoldStart | null
  readonly witness: Witness | null
  /** Why an existing snapshot is not used. */
  readonly problem: string | null
  /** The fold of `start`, when it was continued by records that the data folder holds. */
  readonly fold?: ChainFold
}

const NOTHING: LoadedSnapshot = { start: null, witness: null, problem: null }

/**
 * Reads the snapshot of a data folder. Its MAC covers the digest, which the writer computed from the rows as they were
 * written. Never throws for the contents of the file: a damaged one is not used, and the log is folded from the start.
 */
export const loadSnapshot = (dataDir: string, macKey: Uint8Array): Promise<LoadedSnapshot> =>
  readSnapshot(snapshotPath(dataDir), macKey)

/** The path of a data folder's snapshot. */
export const snapshotPath = (dataDir: string): string => join(dataDir, FILE)

/** The same, of any file that `writeSnapshot` has written. */
export const readSnapshot = async (path: string, macKey: Uint8Array): Promise<LoadedSnapshot> => {
  let file: FileHandle
  try {
    file = await open(path)
  } catch (error) {
    return codeOf(error) === 'ENOENT'
      ? NOTHING
      : { ...NOTHING, problem: `cannot be read (${codeOf(error) ?? 'unknown'})` }
  }
  try {
    // Read twice, through the one handle: no part of it is used before the whole is verified.
    if (!(await isWhole(file, macKey))) return { ...NOTHING, problem: 'is damaged, or of another master key' }
    return await restored(file)
  } finally {
    await file.close()
  }
}

const restored = async (file: FileHandle): Promise<LoadedSnapshot> => {
  let state: ControlState | null = null
  let header: Static<typeof Header> | null = null
  for await (const lines of linesOf(file)) {
    for (const line of lines) {
      if (header !== null && state !== null) {
        const [table, rows] = JSON.parse(line) as [string, [string, unknown][]]
        for (const [id, row] of rows) state.restore(table, id, row)
        continue
      }
      const first: unknown = JSON.parse(line)
      if (!Value.Check(Header, first)) return { ...NOTHING, problem: 'has an unknown header' }
      if (first.fold_version !== FOLD_VERSION) {
        const problem = `is of fold version ${first.fold_version}, this build has ${FOLD_VERSION}`
        return { start: null, witness: witnessOf(first), problem }
      }
      const version = first.event_version ?? 1
      if (version > EVENT_VERSION) {
        // Events that only its build supports are folded into the rows without a trace. A fold of the log shows them.
        const problem = `was written by a build with event version ${version}, this one has ${EVENT_VERSION}`
        return { start: null, witness: witnessOf(first), problem }
      }
      header = first
      state = new ControlState(null, first.digest)
    }
  }
  if (header === null || state === null) return { ...NOTHING, problem: 'has no header' }
  const { next, tip, log_at_ms: logAtMs, counts } = header
  return { start: { state, next, tip, logAtMs, counts }, witness: witnessOf(header), problem: null }
}

const witnessOf = ({ next, tip, chain_id }: Static<typeof Header>): Witness => ({ next, tip, chainId: chain_id })

/**
 * Writes the snapshot of a fold: beside, synced, then renamed. Blocks; for the snapshot thread. False when the fold
 * cannot represent the log: the chain is not started, or the fold met event types that this build does not support.
 */
export const writeSnapshot = (dataDir: string, fold: ChainFold, nowMs: number): boolean => {
  const chainId = fold.state.table('chain').get(CHAIN_ROW)?.chain_id
  if (chainId === undefined || fold.unknownTypes.size > 0) return false
  mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  dropStaleDrafts(dataDir, nowMs)
  const draft = join(dataDir, `${FILE}.${crypto.randomUUID()}.draft`)
  const file = new SnapshotWriter(draft, fold.macKey)
  try {
    const digest = fold.state.digest()
    const header = {
      gatelog_snapshot: 1,
      fold_version: FOLD_VERSION,
      event_version: EVENT_VERSION,
      next: fold.next,
      tip: fold.tip,
      chain_id: chainId,
      log_at_ms: fold.logAtMs,
      digest,
      counts: fold.counts,
    }
    file.line(JSON.stringify(header))
    const written = new RowSetDigest()
    for (const { name, rows } of chunksOf(fold.state)) {
      const line = JSON.stringify([name, rows])
      file.line(line)
      for (const [id, row] of (JSON.parse(line) as [string, [string, unknown][]])[1]) written.toggle(name, id, row)
    }
    if (written.hex() !== digest) throw new Error('the rows as written do not have the digest of the state')
    file.end()
  } catch (error) {
    rmSync(draft, { force: true })
    throw error
  } finally {
    file.close()
  }
  failpoint('snapshot_unnamed')
  renameSync(draft, join(dataDir, FILE))
  syncFolder(dataDir)
  return true
}

function* chunksOf(state: ControlState): IterableIterator<{ name: string; rows: [string, unknown][] }> {
  for (const table of state.tables()) {
    let rows: [string, unknown][] = []
    for (const entry of table.rows()) {
      rows.push(entry)
      if (rows.length < CHUNK_ROWS) continue
      yield { name: table.name, rows }
      rows = []
    }
    if (rows.length > 0) yield { name: table.name, rows }
  }
}

/** Longer than any header. */
const HEADER_BYTES = 4_096
const NEXT = /"next":(\d{1,15}),/

/**
 * How far the log is in the snapshot of a data folder, by its header alone: unverified, to decide what to retain. Null:
 * there is none.
 */
export const snapshotEnd = (dataDir: string): number | null => {
  const head = Buffer.alloc(HEADER_BYTES)
  try {
    const file = openSync(snapshotPath(dataDir), 'r')
    try {
      const [, next] = NEXT.exec(head.toString('latin1', 0, readSync(file, head, 0, HEADER_BYTES, 0))) ?? []
      return next === undefined ? null : Number(next)
    } finally {
      closeSync(file)
    }
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null
    throw error
  }
}

/** Removes drafts of a crash. Other processes of the folder may be writing theirs, so only old ones are removed. */
const dropStaleDrafts = (dataDir: string, nowMs: number): void => {
  for (const name of readdirSync(dataDir)) {
    if (!name.startsWith(`${FILE}.`) || !name.endsWith('.draft')) continue
    const path = join(dataDir, name)
    const { mtimeMs } = statSync(path, { throwIfNoEntry: false }) ?? { mtimeMs: Number.POSITIVE_INFINITY }
    if (nowMs - mtimeMs > STALE_DRAFT_MS) rmSync(path, { force: true })
  }
}
