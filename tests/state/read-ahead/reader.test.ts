// A long log whose first part a thread reads ahead of the fold: the state and the verdicts are the same as without the
// thread, for any content of the log and any failure of the thread.
import { Database } from 'bun:sqlite'
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Decision, writeDecision } from '../../../src/domain/kernel/decision.ts'
import { hmacHex } from '../../../src/lib/crypto/digest.ts'
import { embeddedLog } from '../../../src/log/embedded/log.ts'
import type { LogRecord } from '../../../src/log/port.ts'
import { CONTROL, type Poison, type RecordRead } from '../../../src/state/fold.ts'
import { openLiveState } from '../../../src/state/live/live.ts'
import { countOf, ParcelPacker, unpack } from '../../../src/state/read-ahead/parcel.ts'
import { controlBatches, type ReadAheadOptions } from '../../../src/state/read-ahead/reader.ts'
import { RECENT_RECORDS } from '../../../src/state/restore/recent-records.ts'
import { writeTurn } from '../../../src/state/write-turns.ts'
import { closedAfterEach } from '../../services/closing.ts'
import { eventually } from '../../services/eventually.ts'
import { tenantCreated } from '../live-world.ts'
import { actor, begin, listening, macKey, nowMs, quiet } from '../support.ts'
import { writeChain } from '../written-chain.ts'
import type { AheadLog } from './ahead-log.ts'

const closing = closedAfterEach()
let chain: string
/** Ids of decisions before the odd records, and behind them. */
let ids: string[]

beforeAll(async () => {
  chain = await mkdtemp(join(tmpdir(), 'gatelog-test-'))
  const log = embeddedLog({ dataDir: chain, nowMs })
  await begin(log)
  const first = await writeChain(log, 1_500)
  for (const value of oddRecords(first)) await log.append(CONTROL, 0, [{ key: null, value }])
  ids = [...first, ...(await writeChain(log, RECENT_RECORDS + 500))]
  await log.close()
}, 60_000)
afterAll(() => rm(chain, { recursive: true, force: true }))

/** A MAC that holds, of what is no decision; the second and the third together are JSON. */
const authentic = (body: string) => Buffer.from(`${body},"mac":"${hmacHex(macKey, body)}"}`)

const bodyOf = (bytes: Uint8Array) => Buffer.from(bytes).toString().slice(0, -74)

/** One of each kind that is not simply the next decision; the last one is. */
const oddRecords = (ids: readonly string[]): (Uint8Array | null)[] => {
  const tip = ids.at(-1)!
  const at = new Date(nowMs()).toISOString()
  const decided = (parent: string, events: Decision['events']) =>
    writeDecision({ parent, at, actor, cause: null, v: 1, events }, macKey).bytes
  const { bytes: malformed, id } = writeDecision(
    { parent: tip, at, actor, cause: null, v: 1, events: [{ type: 'tenant.created', data: { id: 3 } }] },
    macKey,
  )
  return [
    null,
    Buffer.alloc(0),
    Buffer.from('not a decision, "quoted"\n'),
    Buffer.alloc(65_537, 'a'),
    decided(tip, [tenantCreated('forged')]).map((byte, index) => (index === 80 ? byte ^ 1 : byte)),
    decided(ids[3]!, [tenantCreated('late')]),
    writeTurn({ instance: 'ins_a', nonce: 'n' }, macKey),
    ...['{"v":2', '{"a":[{', '{}]', '{"x":'].map(authentic),
    authentic(`\uFEFF${bodyOf(decided(ids[4]!, [tenantCreated('marked')]))}`),
    malformed,
    decided(id, [{ type: 'tenant.created', data: { ...tenantCreated('uml').data, name: 'Größe 漢字 \u2028 "x" \\' } }]),
  ]
}

const embedded = (dataDir: string) => {
  const log = embeddedLog({ dataDir, nowMs })
  closing.push(() => log.close())
  return log
}

const copyOfChain = async () => {
  const dataDir = closing.folder()
  await cp(chain, dataDir, { recursive: true })
  return dataDir
}

const aheadOf = (logOptions: AheadLog, fromRecords = 1_000): ReadAheadOptions => ({
  logModule: import.meta.resolve('./ahead-log.ts'),
  logFactory: 'openAheadLog',
  logOptions,
  fromRecords,
})

interface Started {
  readonly status: object
  readonly poison: readonly Poison[]
  readonly said: string[]
  readonly verdicts: readonly unknown[]
  readonly name: string | undefined
  /** Why the start was refused. */
  readonly refusal: string | null
}

/** What a start on the log of a folder comes to. */
const started = async (dataDir: string, ahead?: ReadAheadOptions): Promise<Started> => {
  const { said, diagnostics } = listening()
  const live = await openLiveState({
    log: embedded(dataDir),
    macKey,
    dataDir: null,
    nowMs,
    diagnostics,
    readAhead: ahead,
  })
  closing.push(() => live.close())
  const refusal = await live.ready().then(
    () => null,
    (error: Error) => error.message,
  )
  const { staleMs: _, ...status } = live.status()
  return {
    status,
    poison: live.poison(),
    said: said.map(({ event, fields }) => `${event} ${JSON.stringify(fields, (_, value) => String(value) && value)}`),
    verdicts: ids.map((id) => live.verdictOf(id)),
    name: live.control.table('tenants').get('ten_uml')?.name,
    refusal,
  }
}

describe('a log that is read ahead', () => {
  test('gives the same state, verdicts and words as one that is not', async () => {
    const plain = await started(chain)
    expect(plain).toMatchObject({ refusal: null, name: 'Größe 漢字 \u2028 "x" \\' })
    expect(plain.status).toMatchObject({ counts: { lost: 2, unreadable: 8, forged: 1, malformed: 1 } })
    const marks = closing.folder()
    expect(await started(chain, aheadOf({ dataDir: chain, marks }))).toEqual(plain)
    expect(existsSync(join(marks, 'closed'))).toBe(true) // the thread is done before anything is served
  })

  test('no text of a record runs into the next one unseen', () => {
    const at = new Date(nowMs()).toISOString()
    const decision = bodyOf(
      writeDecision({ parent: ids[0]!, at, actor, cause: null, v: 1, events: [tenantCreated('a')] }, macKey).bytes,
    )
    const unpacked = (...bodies: string[]) => {
      const packer = new ParcelPacker(macKey)
      for (const [offset, body] of bodies.entries()) packer.add({ offset, atMs: 1, key: null, value: authentic(body) })
      const parcel = packer.take()!
      expect(countOf(parcel)).toBe(bodies.length)
      return unpack(parcel)
    }
    expect(unpacked(decision, decision)?.map(({ offset }) => offset)).toEqual([0, 1])
    const around = `1,2,3,"${ids[0]}"`
    for (const pair of [
      [`${decision}},{"a":[{`, '{}]'],
      [`${decision}},${around},${decision}`],
      [`${decision}},${around},${decision},"a":[{`, '{}]'],
      [decision, `${decision}}],[{`],
    ])
      expect(unpacked(...pair)).toBeNull()
  })

  test('a turn, or another text with a valid MAC that is no decision, does not send its parcel the slow way', () => {
    const packer = new ParcelPacker(macKey)
    const values = [writeTurn({ instance: 'ins_a', nonce: 'n' }, macKey), authentic('{"v":2'), null]
    for (const [offset, value] of values.entries()) packer.add({ offset, atMs: 1, key: null, value })
    expect(unpack(packer.take()!)).toEqual(
      values.map((value, offset) => ({
        offset,
        atMs: 1,
        key: null,
        value: value === null ? null : Buffer.from(value),
      })),
    )
  })

  test('comes without bytes up to where records are recent, and with them from there', async () => {
    const log = embedded(chain)
    const end = await log.end(CONTROL, 0)
    const until = end - RECENT_RECORDS
    const deps = { log, macKey, diagnostics: quiet, readAhead: aheadOf({ dataDir: chain }) }
    const records: (LogRecord | RecordRead)[] = []
    for await (const batch of controlBatches(deps, 0, until, new AbortController().signal)) {
      records.push(...batch)
      if (records.length >= end) break
    }
    expect(records.map(({ offset }) => offset)).toEqual(Array.from({ length: end }, (_, offset) => offset))
    // The first third is read while the thread starts.
    const own = Math.floor(until / 3)
    expect(records.slice(0, own).every((record) => 'value' in record)).toBe(true)
    expect(records.slice(own, 1_024).every((record) => 'decision' in record)).toBe(true)
    expect(records.slice(until).every((record) => 'value' in record && record.value !== null)).toBe(true)
  })

  test('a short one starts no thread', async () => {
    const { said } = await started(chain, aheadOf({ dataDir: chain, fails: 'opening' }, 100_000))
    expect(said.filter((line) => line.includes('ahead'))).toEqual([])
  })

  test.each(['opening', 'reading', 'silent'] as const)(
    'a thread that fails when %s is told, and the log is read without it',
    async (fails) => {
      const plain = await started(chain)
      const { said, ...rest } = await started(chain, { ...aheadOf({ dataDir: chain, fails }), silenceMs: 200 })
      const [failure, ...others] = said.toSorted((a, b) => Number(b.includes('ahead')) - Number(a.includes('ahead')))
      expect(failure).toContain('control_read_ahead_failed')
      expect({ ...rest, said: others }).toEqual(plain)
    },
  )

  test.each([true, false])('it can be closed before anything came of it (the thread has begun: %p)', async (begun) => {
    const marks = closing.folder()
    const log = embedded(chain)
    const ahead = aheadOf({ dataDir: chain, fails: 'silent', marks })
    const live = await openLiveState({ log, macKey, dataDir: null, nowMs, diagnostics: quiet, readAhead: ahead })
    if (begun) await eventually('the thread reads', () => existsSync(join(marks, 'reading')))
    await live.close()
    expect(live.status()).toMatchObject({ phase: 'stopped', serves: false })
    expect(existsSync(join(marks, 'closed'))).toBe(begun)
  })

  test.each([
    ['a decision is missing', 'UPDATE p0 SET value = NULL WHERE offset = 700'],
    ['the head is missing', 'DELETE FROM p0 WHERE offset < 700'],
    [
      'a byte of the head is another',
      "UPDATE p0 SET value = CAST(replace(CAST(value AS TEXT), 'chain_test', 'chain_tess') AS BLOB) WHERE offset = 0",
    ],
  ])('is refused as without it when %s', async (_, damage) => {
    const dataDir = await copyOfChain()
    const database = new Database(join(dataDir, 'log', `${CONTROL}.sqlite`))
    database.run(damage)
    database.close()
    const { said: _plainly, ...plain } = await started(dataDir)
    const { said: _told, ...ahead } = await started(dataDir, aheadOf({ dataDir }))
    expect(ahead).toEqual(plain)
  })
})
