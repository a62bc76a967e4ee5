// A rebuild loads the request log in batches, each folded in a thread: the tables are those that a worker makes record
// by record.
import { describe, expect, test } from 'bun:test'
import { copyLine, readCopyLine } from '../../../projections/copy.ts'
import { rebuild } from '../../../projections/rebuild.ts'
import { newCarrier, PARCEL_RECORDS, pack, unpack } from '../../../projections/requests/load/parcel.ts'
import { readModels } from '../../../projections/worker.ts'
import type { Diagnostics } from '../../../src/lib/process/diagnostics.ts'
import type { MemoryLog } from '../../../src/log/memory.ts'
import type { LogRecord } from '../../../src/log/port.ts'
import { silent } from '../../services/postgres.ts'
import { testStore } from '../store.ts'
import { admitted, MAC_KEY, NOON_MS, REQUESTS, sender, settled, tableDigest, testLog } from '../support.ts'

const store = testStore()

const KEYS = { request: 'at_ms, id', detail: 'at_ms, id', pending: 'at_ms, id', newest_day: 'day', late_day: 'day_ms' }
const digests = async (schema: string) => {
  const found: Record<string, string> = { usage: await store.usageDigest(schema) }
  for (const [table, key] of Object.entries(KEYS)) found[table] = await tableDigest(store.sql, schema, table, key)
  return found
}

/**
 * Rebuilds the request log in batches of `maxRecords`. Returns its tables and the reasons why batches were applied
 * record by record.
 */
const loaded = async (log: MemoryLog, maxRecords: number) => {
  const reasons: unknown[] = []
  const note: Diagnostics['info'] = (event, fields) => {
    if (event === 'batch_looked_at' || event === 'load_given_up') reasons.push(fields?.reason)
  }
  await rebuild({
    projections: readModels(MAC_KEY).filter(({ name }) => name === 'requests'),
    log,
    databaseUrl: store.databaseUrl,
    signal: new AbortController().signal,
    diagnostics: { ...silent, info: note, warn: note },
    print: () => {},
    load: { maxRecords, maxBytes: 1_048_576 },
  })
  return { digests: await digests(await store.schemaOf('requests')), reasons }
}

const HOUR_MS = 3_600_000

/**
 * Requests of three instances over two days: some refused, some settled far behind their admission in the log, some
 * with strings that COPY has to escape.
 */
const filled = async (): Promise<MemoryLog> => {
  const log = testLog(3)
  const senders = [0, 1, 2].map((at) => sender(`ins_${at}`))
  for (let at = 0; at < 1_200; at++) {
    const one = senders[at % 3]!
    const more = {
      at_ms: NOON_MS + Math.floor((at / 1_200) * 48) * HOUR_MS,
      raw_usage: at % 70 === 0 ? { 'tab\t "quoted" é\ud800': 1 } : null,
      requested_model: at % 50 === 0 ? 'a\tb\\c\nd\u0000é😀' : 'sandbox-echo',
      latency_ms: at,
      tenant_id: at % 4 === 0 ? null : `ten_${at % 4}`,
      ...(at % 9 === 0 ? { outcome: 'denied' as const, admission: null } : {}),
    }
    if (at % 9 !== 0)
      await log.append(REQUESTS, at % 3, [one.record('request.admitted', admitted(`req_${at}`, { at_ms: more.at_ms }))])
    await log.append(REQUESTS, at % 3, [one.record('request.settled', settled(`req_${at}`, more))])
  }
  return log
}

describe('a load', () => {
  test('gives the tables that a worker makes, in batches that cut requests in two', async () => {
    const log = await filled()
    const before = await digests(await store.fold(log))
    const { digests: after, reasons } = await loaded(log, 301)
    expect(after).toEqual(before)
    expect(reasons).toEqual([])
  })

  test('leaves to the follower what is out of the ordinary, and goes on behind it', async () => {
    const log = await filled()
    // A record that is no event, one that was sent twice, and requests that were settled a second time: in another
    // partition, and far behind.
    await log.append(REQUESTS, 1, [{ key: null, value: Buffer.from('nothing') }])
    const again = sender('ins_9')
    const twice = again.record('request.settled', settled('req_1', { at_ms: NOON_MS, outcome: 'orphaned' }))
    await log.append(REQUESTS, 2, [twice, twice])
    for (let at = 2_000; at < 2_400; at++)
      await log.append(REQUESTS, at % 3, sender(`ins_${at}`, 'e2').both(`req_${at}`, { latency_ms: at }))
    await log.append(REQUESTS, 0, [again.record('request.settled', settled('req_2001', { outcome: 'orphaned' }))])
    const before = await digests(await store.fold(log))
    const aside = await store.setAside('requests')
    const { digests: after, reasons } = await loaded(log, 400)
    expect(after).toEqual(before)
    expect(await store.setAside('requests')).toEqual(aside)
    expect(aside).toHaveLength(1)
    expect(reasons.length).toBeGreaterThan(0)
    expect(reasons.length).toBeLessThan(5)
  })

  test('goes on after Postgres has ended its connections', async () => {
    const log = await filled()
    const before = await digests(await store.fold(log))
    // A sequence goes on whatever becomes of the transaction.
    await store.sql`create sequence moves`
    await store.sql`
      create function end_sometimes() returns trigger language plpgsql as $$
      begin
        if new.next_offset > 300 and nextval('moves') in (1, 4) then
          perform pg_terminate_backend(pg_backend_pid());
        end if;
        return new;
      end $$`
    await store.sql`create trigger end_sometimes before update on gatelog.position for each row execute function end_sometimes()`
    const { digests: after, reasons } = await loaded(log, 301)
    expect(after).toEqual(before)
    expect(reasons).not.toEqual([])
  })
})

describe('a parcel', () => {
  const enveloped = (offset: number, data: string): LogRecord => ({
    offset,
    atMs: offset + 0.5,
    key: null,
    value: null,
    parts: {
      type: `type.${offset % 2}`,
      instance: 'ins_1',
      epoch: 'e1',
      sequence: 7 * offset,
      data,
      dataBytes: 3 * data.length,
      writeData: (into, at) => at + into.write(data, at),
    },
  })

  test('carries every kind of record, as many as there is room for', () => {
    const large = 'é'.repeat(400_000)
    const records: LogRecord[] = [
      ...Array.from({ length: 300 }, (_, offset) =>
        enveloped(offset, `{"n":"${offset} ${offset < 256 ? '' : 'é😀'}"}`),
      ),
      { offset: 300, atMs: 1, key: 'k', value: null },
      { offset: 301, atMs: 2, key: null, value: Buffer.from('{"whole":true}') },
      enveloped(302, large),
      enveloped(303, '{}'),
    ]
    const carrier = newCarrier()
    const seen: unknown[] = []
    for (let rest: readonly LogRecord[] = records; rest.length > 0; ) {
      const parcel = pack(carrier, 4, rest)
      expect(parcel.partition).toBe(4)
      expect(parcel.count).toBeLessThanOrEqual(PARCEL_RECORDS)
      for (const { offset, atMs, value, parts } of unpack(parcel)) {
        const { type, instance, epoch, sequence, data } = parts ?? {}
        seen.push([
          offset,
          atMs,
          value === null ? null : String(Buffer.from(value)),
          type,
          instance,
          epoch,
          sequence,
          data,
        ])
      }
      rest = rest.slice(parcel.count)
    }
    const wanted = records.map(({ offset, atMs, value, parts }) => {
      const { type, instance, epoch, sequence, data } = parts ?? {}
      return [offset, atMs, value === null ? null : String(Buffer.from(value)), type, instance, epoch, sequence, data]
    })
    expect(seen).toEqual(wanted)
  })
})

test('a line to be copied is read back as it was', () => {
  const fields = ['plain', '', null, 'tab\tback\\slash\nline\rend', '\\N', '\\t', 'é😀', 'x\\\\n']
  expect(readCopyLine(copyLine(fields).slice(0, -1))).toEqual(fields)
})
