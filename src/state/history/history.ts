// Replies to questions about the past. Runs in the history thread, which reads the log by itself.

import { createHmac, timingSafeEqual } from 'node:crypto'
import { mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { CONTROL_EVENTS, ControlState, eventIsValid, foldDecision } from '../../domain/control.ts'
import { type Decision, GENESIS, judge } from '../../domain/kernel/decision.ts'
import type { RowChange } from '../../domain/kernel/tables.ts'
import { renewed } from '../../domain/kernel/upcasters.ts'
import { revertedBy } from '../../domain/reversal.ts'
import { sha256Hex } from '../../lib/crypto/digest.ts'
import { codeOf } from '../../lib/process/error-code.ts'
import type { EventLog, LogRecord } from '../../log/port.ts'
import { CONTROL } from '../fold.ts'
import type { Checkpoints } from './checkpoints.ts'
import {
  HistoryUnavailable,
  type LaterChange,
  type LogDetail,
  type LogEntry,
  type LogPage,
  MOST_CHANGES,
  type Moment,
  type PastPoint,
  type Question,
  type RecordVerdict,
} from './history-port.ts'
import { PastStates, recordsOf } from './past-state.ts'
import { RecordIndex } from './record-index.ts'

// The record index of the control topic, stored in the folder `history` of a data folder, so that the first question
// after a start need not read the whole log. A shortcut: a file that is damaged, of another key or of another log is
// not used.

const FOLDER = 'history'
const FILE = 'survey'
const MAC_BYTES = 32

/** Beside, then renamed; not synced, since a lost one costs time only. */
export const storeIndex = (dataDir: string, index: RecordIndex): void => {
  const folder = join(dataDir, FOLDER)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const draft = join(folder, `${FILE}.${crypto.randomUUID()}.draft`)
  const bytes = index.bytes()
  writeFileSync(draft, Buffer.concat([bytes, macOf(index.macKey, bytes)]), { mode: 0o600 })
  renameSync(draft, join(folder, FILE))
}

/** The last stored index, or null. The caller checks that it is of this log. */
export const storedIndex = async (dataDir: string, macKey: Uint8Array): Promise<RecordIndex | null> => {
  let file: Buffer
  try {
    file = await readFile(join(dataDir, FOLDER, FILE))
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null
    throw error
  }
  if (file.length < MAC_BYTES) return null
  const bytes = file.subarray(0, file.length - MAC_BYTES)
  return timingSafeEqual(file.subarray(bytes.length), macOf(macKey, bytes)) ? RecordIndex.of(macKey, bytes) : null
}

const macOf = (macKey: Uint8Array, bytes: Uint8Array): Buffer =>
  createHmac('sha256', macKey).update('survey\0').update(bytes).digest()

export interface HistoryDeps {
  readonly log: EventLog
  readonly macKey: Uint8Array
  readonly checkpoints: Pick<Checkpoints, 'before'>
  /** Where the index is stored between two starts, and whether this process may write there. */
  readonly indexStore?: { readonly dataDir: string; readonly writes: boolean }
  /** Reads a state of the past for `past` questions: `read` and the result are opaque to this module. */
  readPast(state: ControlState, point: PastPoint, read: unknown): unknown
  readonly signal: AbortSignal
}

const MOST_LATER = 20
/** A first pass over a long log is not waited for: the reply is that the caller should repeat the question. */
const INDEX_MS = 8_000

/** The index is stored again when it has grown by so many records. */
const STORE_RECORDS = 10_000

export class LogHistory {
  #index: RecordIndex
  #past: PastStates
  /** The end of the index when it was last stored, or read; null before the first question. */
  #storedNext: number | null = null

  constructor(readonly deps: HistoryDeps) {
    this.#index = new RecordIndex(deps.macKey)
    this.#past = new PastStates(deps.log, deps.macKey, deps.checkpoints, deps.signal)
  }

  /** One at a time. Throws HistoryUnavailable when the reply would take too long now. */
  async answer(question: Question): Promise<unknown> {
    try {
      const end = await this.#catchUp()
      if (question.name === 'page') return await this.#page(question, end)
      if (question.name === 'record') return await this.#record(question.id)
      if (question.name === 'later') return await this.#later(question)
      return await this.#read(question.moment, question.read)
    } catch (error) {
      // The index of a log that reads otherwise than before is rebuilt.
      if (!(error instanceof HistoryUnavailable)) this.#forget()
      throw error
    }
  }

  #forget(): void {
    const { log, macKey, checkpoints, signal } = this.deps
    this.#index = new RecordIndex(macKey)
    this.#past = new PastStates(log, macKey, checkpoints, signal)
  }

  /** Reads up to the present end of the log. */
  async #catchUp(): Promise<number> {
    const { log, signal } = this.deps
    const end = await log.end(CONTROL, 0)
    if (this.#storedNext === null) await this.#takeStored(end)
    if (end < this.#index.next) throw new Error(`${CONTROL} ends at ${end}, before what was read of it`)
    const deadline = performance.now() + INDEX_MS
    for await (const record of recordsOf(log, this.#index.next, end, signal)) {
      this.#index.take(record)
      if (performance.now() > deadline && this.#index.next < end) {
        this.#store()
        const done = `${this.#index.next} of ${end}`
        throw new HistoryUnavailable(`the log is being read for the first time since the start (${done} records)`)
      }
    }
    this.#store()
    return end
  }

  /** The index that an earlier process stored, if it is of this log: the log has its last decision at its offset. */
  async #takeStored(end: number): Promise<void> {
    const { indexStore, macKey } = this.deps
    this.#storedNext = 0
    const index = indexStore === undefined ? null : await storedIndex(indexStore.dataDir, macKey)
    const last = index?.lastCounted(index.next) ?? null
    if (index === null || last === null || index.next > end) return
    this.#index = index
    const record = await this.#recordAt(last)
    if (record?.value != null && sha256Hex(record.value) === index.tip) this.#storedNext = index.next
    else this.#index = new RecordIndex(macKey)
  }

  #store(): void {
    const { indexStore } = this.deps
    if (indexStore === undefined || !indexStore.writes || this.#index.next - (this.#storedNext ?? 0) < STORE_RECORDS)
      return
    storeIndex(indexStore.dataDir, this.#index)
    this.#storedNext = this.#index.next
  }

  async #page({ before, skip, limit }: Question & { name: 'page' }, total: number): Promise<LogPage> {
    const end = Math.max(0, Math.min(before ?? total, total) - skip)
    const entries: LogEntry[] = []
    const from = Math.max(0, end - limit)
    for await (const record of recordsOf(this.deps.log, from, end, this.deps.signal)) entries.push(this.#entry(record))
    return { entries: entries.reverse(), total }
  }

  async #record(id: string | number): Promise<LogDetail | null> {
    const record = typeof id === 'number' ? await this.#recordAt(id) : await this.#recordOf(id)
    if (record === null) return null
    const entry = this.#entry(record)
    const decision = this.#decisionOf(record)
    if (decision === null) return { entry, events: [], changes: [], changesTotal: 0 }
    const changes = entry.verdict === 'counted' ? await this.#changesOf(record, decision) : []
    const shown = changes.slice(0, MOST_CHANGES)
    return { entry, events: decision.events, changes: shown, changesTotal: changes.length }
  }

  /** As every instance folded it: rows may hold the time of the log. */
  async #changesOf({ offset, atMs, value }: LogRecord, decision: Decision): Promise<readonly RowChange[]> {
    const { state, logAtMs } = await this.#past.at(offset, this.#index)
    const overlay = new ControlState(state)
    const id = sha256Hex(value!)
    return foldDecision(overlay, { ...decision, cause: null }, id, Math.max(logAtMs, atMs)).changes
  }

  async #later({ after, rows }: Question & { name: 'later' }): Promise<readonly LaterChange[]> {
    const wanted = new Set(rows.map(({ table, id }) => `${table}\0${id}`))
    const found: LaterChange[] = []
    await this.#past.follow(after + 1, this.#index, (record, revision, { changes }) => {
      const touched = changes.filter(({ table, id }) => wanted.has(`${table}\0${id}`))
      const distinct = new Map(touched.map(({ table, id }) => [`${table}\0${id}`, { table, id }]))
      const at = this.#decisionOf(record)?.at ?? ''
      if (distinct.size > 0) found.push({ revision, at, rows: [...distinct.values()] })
      return found.length < MOST_LATER
    })
    return found
  }

  async #read(moment: Moment, read: unknown): Promise<{ point: PastPoint; reply: unknown } | null> {
    const record = await this.#recordOfMoment(moment)
    if (record === null) return null
    const atMs = 'id' in moment ? this.#index.momentAt(record.offset) : moment.atMs
    const point = { revision: sha256Hex(record.value!), atMs }
    const { state } = await this.#past.at(record.offset + 1, this.#index)
    return { point, reply: await this.deps.readPast(state, point, read) }
  }

  async #recordOfMoment(moment: Moment): Promise<LogRecord | null> {
    if ('id' in moment) {
      const record = await this.#recordOf(moment.id)
      return record !== null && this.#index.verdict(record.offset) === 'counted' ? record : null
    }
    const offset = this.#index.offsetAt(moment.atMs)
    return offset === null ? null : this.#recordAt(offset)
  }

  /** Record of the decision whose id begins with `id`: of several copies the one that counted, else the newest. */
  async #recordOf(id: string): Promise<LogRecord | null> {
    let found: LogRecord | null = null
    for (const offset of this.#index.candidates(id)) {
      const record = await this.#recordAt(offset)
      if (record?.value == null || !sha256Hex(record.value).startsWith(id)) continue
      if (this.#index.verdict(offset) === 'counted') return record
      found ??= record
    }
    return found
  }

  async #recordAt(offset: number): Promise<LogRecord | null> {
    if (offset >= this.#index.next) return null
    for await (const record of recordsOf(this.deps.log, offset, offset + 1, this.deps.signal)) return record
    return null
  }

  /** The decision in a record; null when it is none or cannot be trusted. */
  #decisionOf({ value }: LogRecord): Decision | null {
    const verdict = value === null ? null : judge(GENESIS, value, this.deps.macKey)
    return verdict !== null && 'decision' in verdict ? verdict.decision : null
  }

  #entry({ offset, atMs, value }: LogRecord): LogEntry {
    const indexed = this.#index.verdict(offset)
    const judged = value === null ? null : judge(GENESIS, value, this.deps.macKey)
    const decision = judged !== null && 'decision' in judged ? judged.decision : null
    const problem = indexed === 'counted' && decision !== null ? malformedType(decision) : null
    const verdict: RecordVerdict = problem === null ? indexed : 'malformed'
    const reason = verdict === 'unreadable' || verdict === 'forged' ? reasonOf(judged) : problem
    return {
      offset,
      id: value === null ? null : sha256Hex(value),
      verdict,
      reason,
      logAtMs: atMs,
      decision: decision === null ? null : facts(decision),
    }
  }
}

const reasonOf = (judged: object | null): string =>
  judged === null || !('reason' in judged) ? 'no value' : String(judged.reason)

const facts = ({ parent, at, actor, by, cause, events }: Decision): NonNullable<LogEntry['decision']> => {
  return {
    parent,
    at,
    actor,
    by: by ?? null,
    hasCause: cause !== null,
    eventTypes: events.map(({ type }) => type),
    reverts: revertedBy({ events }),
  }
}

/**
 * Why a decision that counts changes nothing: an event of a known type that its schema refuses. Null: it is
 * well-formed.
 */
const malformedType = (decision: Decision): string | null => {
  const refused = renewed(decision).events.find(
    (event) => CONTROL_EVENTS[event.type] !== undefined && !eventIsValid(event),
  )
  return refused === undefined ? null : `${refused.type} does not match its schema`
}
