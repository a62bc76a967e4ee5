// gateway.control.v1 -> the audit log: the decisions that count, with the state before and after.
import { CONTROL_EVENTS, ControlState, foldDecision } from '../../src/domain/control.ts'
import { type Decision, type EventRecord, GENESIS, judge } from '../../src/domain/kernel/decision.ts'
import { masked } from '../../src/domain/kernel/mask.ts'
import type { RowChange } from '../../src/domain/kernel/tables.ts'
import { renewed } from '../../src/domain/kernel/upcasters.ts'
import { revertedBy } from '../../src/domain/reversal.ts'
import { type LogRecord, LogReplaced } from '../../src/log/port.ts'
import { TOPICS } from '../../src/log/topics.ts'
import { storableJson } from '../database.ts'
import type { Folded, Folder, OpenContext, Projection } from '../projection.ts'
import schema from './schema.sql' with { type: 'text' }
import { loadCheckpoint, saveCheckpoint } from './state.ts'

export interface AuditRow {
  readonly log_offset: number
  readonly event_index: number
  readonly decision_id: string
  readonly at_ms: number
  readonly log_at_ms: number
  readonly actor_type: string
  readonly actor_id: string
  readonly action: string
  readonly resource: string
  readonly subject_id: string
  readonly tenant_id: string | null
  readonly event_type: string
  readonly before: unknown
  readonly after: unknown
  readonly removed: Readonly<Record<string, number>>
  /** The decision that this one takes back, or null. */
  readonly reverts: string | null
}

const CHECKPOINT_EVERY = 5_000
const TURN = Buffer.from('{"turn":')

/**
 * Folds the chain and returns what each decision changed. Holds the whole control state: as much memory as a gateway
 * needs for it.
 */
export class AuditFolder implements Folder<AuditRow> {
  #tip: string

  constructor(
    readonly macKey: Uint8Array,
    readonly state: ControlState = new ControlState(),
    tip: string = GENESIS,
    readonly onCommitted: (next: number, logAtMs: number) => Promise<void> = async () => {},
  ) {
    this.#tip = tip
  }

  tip(): string {
    return this.#tip
  }

  committed(next: number, logAtMs: number): Promise<void> {
    return this.onCommitted(next, logAtMs)
  }

  fold(record: LogRecord, logAtMs: number): Folded<AuditRow> {
    const nothing = { origin: null, rows: [], problem: null } as const
    if (record.value === null) return { ...nothing, problem: 'a tombstone' }
    const verdict = judge(this.#tip, record.value, this.macKey)
    if (verdict.kind === 'lost') return nothing
    if (!('decision' in verdict)) {
      // A turn is authentic (its MAC was checked first) and is not a decision: it is not set aside.
      const isTurn = verdict.kind === 'unreadable' && Buffer.from(record.value.subarray(0, TURN.length)).equals(TURN)
      return isTurn ? nothing : { ...nothing, problem: `${verdict.kind}: ${verdict.reason}` }
    }
    this.#tip = verdict.id
    const { id } = verdict
    const decision = renewed(verdict.decision)
    const effects = effectsOf(this.state, decision, id, logAtMs)
    if (typeof effects === 'string') return { ...nothing, problem: `malformed: ${effects}` }
    const shared = {
      log_offset: record.offset,
      decision_id: id,
      at_ms: Date.parse(decision.at),
      log_at_ms: logAtMs,
      actor_type: decision.actor.type,
      actor_id: decision.actor.id,
      reverts: revertedBy(decision),
    }
    const rows = decision.events.map((event, index) => ({
      ...shared,
      event_index: index,
      ...describe(event, effects[index]!),
    }))
    return { ...nothing, rows }
  }
}

/**
 * Applies the decision and returns the changes of each of its events, or why it is malformed. The causes of idempotent
 * repeats are not kept.
 */
const effectsOf = (
  state: ControlState,
  decision: Decision,
  id: string,
  logAtMs: number,
): readonly (readonly RowChange[])[] | string => {
  const whole = { ...decision, cause: null }
  if (decision.events.length === 1) {
    const { changes, malformed } = foldDecision(state, whole, id, logAtMs)
    return malformed ?? [changes]
  }
  // Event by event on an overlay, then all of it at once: a decision is applied as the live fold applies it, whole or
  // not at all.
  const overlay = new ControlState(state)
  const effects = decision.events.map((event) => foldDecision(overlay, { ...whole, events: [event] }, id, logAtMs))
  const { malformed } = foldDecision(state, whole, id, logAtMs)
  return malformed ?? effects.map(({ changes }) => changes)
}

const describe = (event: EventRecord, changes: readonly RowChange[]) => {
  const { type, data } = event
  const known = CONTROL_EVENTS[type]
  const [aggregate = type, happened = 'unknown'] = type.split('.')
  const subject = known?.subject(data) ?? String(data.id ?? '')
  const own = changes.filter(({ id }) => id === subject)
  const before = own[0]?.before ?? null
  const after = own.length === 0 ? null : (own.at(-1)?.after ?? null)
  const removed: Record<string, number> = {}
  for (const change of changes) {
    if (change.after === null && change.id !== subject) removed[change.table] = (removed[change.table] ?? 0) + 1
  }
  const resource = known?.resource ?? aggregate
  const action = known === undefined ? happened : typeof known.action === 'string' ? known.action : known.action(data)
  return {
    action,
    resource,
    subject_id: subject,
    tenant_id: resource === 'tenant' ? subject : tenantOf(after ?? before ?? data),
    event_type: type,
    before: masked(before),
    after: masked(after),
    removed,
  }
}

const tenantOf = (row: unknown): string | null => {
  const tenant = (row as { tenant_id?: unknown }).tenant_id
  return typeof tenant === 'string' ? tenant : null
}

/**
 * The folder at a position: from the checkpoint, else from the first decision. Throws LogReplaced when the log gives
 * another tip there.
 */
const openAt = async (macKey: Uint8Array, context: OpenContext): Promise<AuditFolder> => {
  const { sql, build, position, signal } = context
  const saved = await loadCheckpoint(sql, build, position.next)
  let savedNext = saved?.next ?? 0
  const state = saved?.state ?? new ControlState()
  const folder = new AuditFolder(macKey, state, saved?.tip, async (next, logAtMs) => {
    if (next - savedNext < CHECKPOINT_EVERY) return
    savedNext = next
    await saveCheckpoint(sql, build, { state, next, logAtMs, tip: folder.tip() })
  })
  await catchUp(folder, context, saved?.next ?? 0, saved?.logAtMs ?? 0)
  signal.throwIfAborted()
  if (position.next > 0 && folder.tip() !== position.tip) {
    throw new LogReplaced(
      `${TOPICS.control.name} has the tip ${folder.tip().slice(0, 12)} at offset ${position.next}, ` +
        `but the audit log was made with ${position.tip?.slice(0, 12)}: ` +
        `the topic was replaced; when that was intended, run: gateway rebuild ${build.model}`,
    )
  }
  return folder
}

const catchUp = async (
  folder: AuditFolder,
  { log, position, signal }: OpenContext,
  from: number,
  startMs: number,
): Promise<void> => {
  if (from >= position.next) return
  let logAtMs = startMs
  const reading = new AbortController()
  const stop = () => reading.abort()
  signal.addEventListener('abort', stop)
  try {
    for await (const records of log.read(TOPICS.control.name, 0, from, reading.signal)) {
      for (const record of records) {
        if (record.offset >= position.next) return
        logAtMs = Math.max(logAtMs, record.atMs)
        folder.fold(record, logAtMs)
        if (record.offset + 1 === position.next) return
      }
    }
  } finally {
    reading.abort()
    signal.removeEventListener('abort', stop)
  }
}

const COLUMNS = `log_offset bigint, event_index integer, decision_id text, at_ms bigint, log_at_ms bigint,
  actor_type text, actor_id text, action text, resource text, subject_id text, tenant_id text, event_type text,
  before jsonb, after jsonb, removed jsonb, reverts text`

export const auditProjection = ({ macKey }: { readonly macKey: Uint8Array }): Projection<AuditRow> => ({
  name: 'audit',
  version: 3,
  topic: TOPICS.control.name,
  gatherMs: 2, // changes are rare, and their author looks at once
  schema,
  open: (context) => openAt(macKey, context),
  async write(sql, build, rows) {
    await sql.unsafe(
      `insert into "${build.schemaName}".audit_event select * from json_to_recordset($1::text::json) as new (${COLUMNS})
       on conflict do nothing`,
      [storableJson(rows)],
      { prepare: true },
    )
  },
})
