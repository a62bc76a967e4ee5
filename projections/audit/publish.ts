// Audit rows -> gateway.audit.v1: one event for each decision, with the decision's id as its own. After the rows are
// committed, in the order of the chain.
import type { AuditRecorded } from '../../src/domain/events/audit.ts'
import { sleep } from '../../src/lib/event-loop/sleep.ts'
import type { Diagnostics } from '../../src/lib/process/diagnostics.ts'
import { MAX_APPEND_BYTES } from '../../src/log/append-limits.ts'
import { readEnvelope, writeEnvelope } from '../../src/log/envelope.ts'
import { type EventLog, LogUnavailable, type NewRecord, RecordRefused } from '../../src/log/port.ts'
import { partitionOf, TOPICS } from '../../src/log/topics.ts'
import { activeBuild } from '../builds.ts'
import { isMissingTable, type Sql, settled, type Transaction } from '../database.ts'
import { readOne } from '../follow.ts'
import { databaseProblem } from '../problems.ts'
import type { Build } from '../projection.ts'
import type { AuditRow } from './project.ts'

export interface PublishOptions {
  readonly sql: Sql
  readonly log: EventLog
  readonly signal: AbortSignal
  readonly diagnostics: Diagnostics
  readonly pollMs?: number
}

const TOPIC = TOPICS.audit.name
const DECISIONS_AT_ONCE = 64
const MAX_BYTES = 60_000
const MAX_CHANGES = 100
/** Repeats are dropped by this origin and the offset of the decision, as with every other topic. */
const ORIGIN = { instance: 'audit', epoch: 'control' } as const

/**
 * Publishes until the signal is aborted. Two workers never publish at once; a crash repeats one batch at most, with the
 * same ids.
 */
export const publishAudit = async (options: PublishOptions): Promise<void> => {
  const { sql, signal, diagnostics, pollMs = 250 } = options
  for (let failures = 0; !signal.aborted; ) {
    try {
      const published = await settled(sql, publishBatch(options))
      failures = 0
      if (published === 0) await sleep(pollMs, signal)
    } catch (error) {
      if (signal.aborted) return
      if (!isMissingTable(error)) {
        diagnostics.debug('audit_not_published', { reason: databaseProblem(error) })
        failures++
      }
      await sleep(Math.min(5_000, 100 * 2 ** Math.min(failures, 8)), signal)
    }
  }
}

/** One batch; returns how many decisions. 0: nothing new, or another worker is publishing. */
const publishBatch = async (options: PublishOptions): Promise<number> => {
  const { sql, log, signal } = options
  const [known] = await sql<{ next: number }[]>`select next_offset as next from gatelog.audit_publication where id = 1`
  if (known === undefined) {
    const next = await publishedBefore(log, signal)
    await sql`insert into gatelog.audit_publication (id, next_offset) values (1, ${next}) on conflict do nothing`
  }
  return sql.begin(async (transaction) => {
    const [own] = await transaction<{ next: number }[]>`
      select next_offset as next from gatelog.audit_publication where id = 1 for update skip locked`
    const build = await activeBuild(transaction, 'audit')
    if (own === undefined || build === null) return 0
    const [position] = await transaction<{ next: number }[]>`
      select next_offset as next from gatelog.position where model = 'audit'
        and build = ${build.build} and partition = 0`
    if (position === undefined || position.next <= own.next) return 0
    const decisions = await decisionsFrom(transaction, build, own.next, position.next)
    await publish(options, decisions)
    const complete = decisions.length < DECISIONS_AT_ONCE
    const next = complete ? position.next : decisions.at(-1)!.log_offset + 1
    await transaction`update gatelog.audit_publication set next_offset = ${next} where id = 1`
    return decisions.length
  }) as Promise<number>
}

/**
 * Up to where an earlier database had published, from the newest event of each partition: a database that is made anew
 * repeats nothing.
 */
const publishedBefore = async (log: EventLog, signal: AbortSignal): Promise<number> => {
  let next = 0
  for (const partition of await log.partitions(TOPIC)) {
    const end = await log.end(TOPIC, partition)
    const record = end === 0 ? null : await readOne(log, TOPIC, partition, end - 1, signal)
    const envelope = record?.value == null ? null : readEnvelope(record.value)
    if (envelope !== null) next = Math.max(next, envelope.sequence + 1)
  }
  return next
}

const decisionsFrom = async (
  sql: Transaction,
  { schemaName }: Build,
  from: number,
  to: number,
): Promise<AuditRecorded[]> => {
  const rows = await sql<AuditRow[]>`
    select * from ${sql(`${schemaName}.audit_event`)}
    where log_offset in (
      select distinct log_offset from ${sql(`${schemaName}.audit_event`)}
      where log_offset >= ${from} and log_offset < ${to} order by log_offset limit ${DECISIONS_AT_ONCE})
    order by log_offset, event_index`
  return [...Map.groupBy(rows, ({ log_offset }) => log_offset).values()].flatMap(([first, ...more]) =>
    first === undefined ? [] : [recordedOf(first, more)],
  )
}

/** The event of one decision, from the rows of its first and its other changes. */
const recordedOf = (first: AuditRow, more: readonly AuditRow[]): AuditRecorded => {
  const rows = [first, ...more]
  const changes = rows
    .slice(0, MAX_CHANGES)
    .map(({ action, resource, subject_id, tenant_id, before, after, removed }) => ({
      action,
      resource,
      subject_id,
      tenant_id,
      before,
      after,
      removed,
    }))
  return {
    decision_id: first.decision_id,
    log_offset: first.log_offset,
    at: new Date(first.at_ms).toISOString(),
    actor: { type: first.actor_type, id: first.actor_id },
    changes,
    truncated: rows.length > MAX_CHANGES,
    ...(first.reverts === null ? {} : { reverts: first.reverts }),
  }
}

/**
 * One by one when the log refuses them together: what it will never take is reported and skipped, and stops nothing
 * behind it.
 */
const publish = async ({ log, signal, diagnostics }: PublishOptions, decisions: readonly AuditRecorded[]) => {
  try {
    return await append(log, decisions, signal)
  } catch (error) {
    if (!(error instanceof RecordRefused)) throw error
  }
  const refused: { decision_id: string; reason: string }[] = []
  for (const decision of decisions) {
    try {
      await append(log, [decision], signal)
    } catch (error) {
      if (!(error instanceof RecordRefused)) throw error
      refused.push({ decision_id: decision.decision_id, reason: error.message })
    }
  }
  if (refused.length > 0) diagnostics.error('audit_events_refused', { topic: TOPIC, count: refused.length, refused })
}

const append = async (log: EventLog, decisions: readonly AuditRecorded[], signal: AbortSignal): Promise<void> => {
  if (decisions.length === 0) return
  const count = (await log.partitions(TOPIC)).length
  if (count === 0) throw new LogUnavailable(`${TOPIC} has no partition`)
  const batches = new Map<number, NewRecord[]>()
  let bytes = 0
  const send = async () => {
    for (const [partition, records] of batches) await log.append(TOPIC, partition, records, signal)
    batches.clear()
    bytes = 0
  }
  for (const decision of decisions) {
    const tenant = decision.changes.find(({ tenant_id }) => tenant_id !== null)?.tenant_id ?? 'global'
    const record = recordOf(decision, tenant)
    const partition = partitionOf(tenant, count)
    if (bytes + record.value!.length > MAX_APPEND_BYTES) await send()
    bytes += record.value!.length
    batches.set(partition, [...(batches.get(partition) ?? []), record])
  }
  await send()
}

const recordOf = (decision: AuditRecorded, key: string): NewRecord => {
  const write = (data: AuditRecorded) =>
    Buffer.from(
      writeEnvelope(
        { ...ORIGIN, sequence: data.log_offset, id: data.decision_id },
        'audit.recorded',
        key,
        Date.parse(data.at),
        JSON.stringify(data),
      ),
    )
  const whole = write(decision)
  if (whole.length <= MAX_BYTES) return { key, value: whole }
  const changes = decision.changes.map((change) => ({ ...change, before: null, after: null }))
  return { key, value: write({ ...decision, changes, truncated: true }) }
}
