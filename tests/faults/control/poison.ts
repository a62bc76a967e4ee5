// C4: records that no reader may stumble over, put into the control topic beside the work of three instances.
// `bun tests/faults/control/poison.ts [--rounds 10]`: on a real broker.
import { type EventRecord, GENESIS, writeDecision } from '../../../src/domain/kernel/decision.ts'
import { hmacHex } from '../../../src/lib/crypto/digest.ts'
import { RecordRefused } from '../../../src/log/port.ts'
import { CONTROL } from '../../../src/state/fold.ts'
import { actor, createTenant, type Instance, macKey } from '../../state/support.ts'
import { conclude, type Figure, numberArgument } from './figures.ts'
import { agreeing, closeAll, kafkaWorld, openInstances, type World } from './world.ts'

const text = (value: string): Uint8Array => Buffer.from(value)
const nested = (depth: number): string => '['.repeat(depth) + ']'.repeat(depth)

/** A record with a valid MAC over any contents. */
const signed = (body: string): Uint8Array => text(`${body.slice(0, -1)},"mac":"${hmacHex(macKey, body.slice(0, -1))}"}`)

const decision = (parent: string, events: readonly EventRecord[], more: object = {}) => ({
  parent,
  at: new Date().toISOString(),
  actor,
  cause: null,
  v: 1,
  events,
  ...more,
})

interface Poison {
  readonly what: string
  /** On that tip. */
  make(tip: string): { readonly key: string | null; readonly value: Uint8Array | null }
}

const keyless = (what: string, value: (tip: string) => Uint8Array | null): Poison => ({
  what,
  make: (tip) => ({ key: null, value: value(tip) }),
})
const created = (data: object): EventRecord => ({ type: 'tenant.created', data: data as EventRecord['data'] })
const fields = { id: 'ten_poison', slug: 'poison', name: 'poison', plan: null, managed_by: 'api' }

/** None of them may change anything. */
const POISONS: readonly Poison[] = [
  keyless('random bytes', () => crypto.getRandomValues(new Uint8Array(777))),
  keyless('1 MB', () => Buffer.alloc(900_000, 0x7b)),
  keyless('an empty value', () => new Uint8Array(0)),
  keyless('no value', () => null),
  { what: 'a key', make: () => ({ key: 'key', value: text('{"a":1}') }) },
  keyless('JSON that is no decision', () => text('{"hello":"world"}')),
  keyless('half a UTF-8 character', () => signed('{"parent":"').fill(0xc3, 5, 9)),
  keyless('depth 100,000', () => text(nested(100_000))),
  keyless('depth 20,000, signed', (tip) =>
    signed(JSON.stringify(decision(tip, [created({})])).replace('"data":{}', `"data":{"a":${nested(20_000)}}`)),
  ),
  keyless('a forged MAC', (tip) => {
    const bytes = Buffer.from(writeDecision({ ...decision(tip, [created(fields)]), v: 1 }, macKey).bytes)
    bytes[bytes.length - 5]! ^= 1
    return bytes
  }),
  keyless('the next version', (tip) => signed(JSON.stringify(decision(tip, [created(fields)], { v: 2 })))),
  keyless('wrong types', (tip) => signed(JSON.stringify({ ...decision(tip, []), parent: 7, events: 'x' }))),
  keyless('events that are none', (tip) => signed(JSON.stringify({ ...decision(tip, []), events: [null, 3] }))),
  keyless('no events', (tip) => signed(JSON.stringify(decision(tip, [])))),
  keyless('__proto__ for a member', (tip) =>
    signed(JSON.stringify(decision(tip, [])).replace('"events":[]', '"__proto__":{"v":1},"events":"x"')),
  ),
]

/** Decisions that count, and whose events their schemas refuse. */
const MALFORMED: readonly (readonly [string, EventRecord])[] = [
  ['a tenant without its fields', created({ id: 'ten_x' })],
  ['numbers for texts', created({ ...fields, slug: 7 })],
  ['__proto__ in its data', created(JSON.parse('{"__proto__":{"id":"ten_x"}}') as object)],
  ['a key with a digest that is none', { type: 'api_key.issued', data: { id: 'key_x', digest: 'short' } }],
]

const settle = (instances: readonly Instance[], end: number) =>
  Promise.all(instances.map(({ live }) => live.condition.until(() => live.next >= end, 10_000)))

/** Puts in every kind so often; between them an instance works on. Closes the world. */
export const poison = async (world: World, rounds: number): Promise<readonly Figure[]> => {
  const instances = await openInstances(world, 3)
  const log = world.view()
  let injected = 0
  let refused = 0
  let worked = 0
  const put = async (record: { key: string | null; value: Uint8Array | null }) => {
    try {
      await log.append(CONTROL, 0, [record])
      injected++
    } catch (error) {
      if (!(error instanceof RecordRefused)) throw error
      refused++ // too large for the log itself
    }
  }
  try {
    for (let round = 0; round < rounds; round++) {
      for (const [at, { make }] of POISONS.entries()) {
        await put(make(instances[0]!.live.tip))
        const { changed } = await instances[at % 3]!.queue.commit(createTenant(`r${round}-${at}`))
        if (changed) worked++
        await settle(instances, await log.end(CONTROL, 0))
      }
      for (const [, event] of MALFORMED) {
        const { bytes } = writeDecision({ ...decision(instances[0]!.live.tip, [event]), v: 1 }, macKey)
        await put({ key: null, value: bytes })
        await settle(instances, await log.end(CONTROL, 0))
      }
    }
    const { equal, of } = await agreeing(world, instances)
    const counted = instances.map(({ live }) => {
      const { unreadable, forged, malformed } = live.status().counts
      return unreadable + forged + malformed
    })
    const stopped = instances.filter(({ live }) => live.status().phase !== 'live' || live.refusal() !== null).length
    const expected = rounds * POISONS.length
    const strange = instances.filter(({ live }) => live.control.table('tenants').size !== expected).length
    const good =
      stopped === 0 && strange === 0 && equal === of && worked === expected && counted.every((n) => n === injected)
    const figure =
      `instances that stopped ${stopped} of 3; set aside ${counted.join(', ')} of ${injected} injected (${refused} ` +
      `more were refused by the log); writes between them ${worked} of ${expected}; digests equal ${equal} of ${of}`
    const what = `poison of ${POISONS.length + MALFORMED.length} kinds in the control topic`
    return [{ row: 'C4', what, figure, n: injected, good }, await unknownType(instances)]
  } finally {
    await log.close()
    await closeAll(world, instances)
  }

  /**
   * A record of a newer build: every instance keeps serving, none writes, and the row that the record names is refused.
   */
  async function unknownType(all: readonly Instance[]): Promise<Figure> {
    const tip = all[0]!.live.tip
    const event = { type: 'tenant.frozen_by_a_newer_build', data: { id: 'ten_r0-0' } }
    await put({ key: null, value: writeDecision({ ...decision(tip, [event]), v: 1 }, macKey).bytes })
    await settle(all, await log.end(CONTROL, 0))
    const serving = all.filter(({ live }) => live.status().phase === 'live' && live.status().serves).length
    const degraded = all.filter(({ live }) => live.status().degradation === 'unknown_events').length
    const answers = await Promise.allSettled(all.map(({ queue }, n) => queue.commit(createTenant(`late-${n}`))))
    const refusals = answers.filter(({ status }) => status === 'rejected').length
    const named = all.filter(({ live }) => live.refused.has('ten_r0-0')).length
    return {
      row: 'C4',
      what: 'an event type that this build does not know',
      figure:
        `serving on ${serving} of 3, degraded ${degraded}, writes refused ` +
        `${refusals}, the row that it names refused ${named}`,
      n: 3,
      good: [serving, degraded, refusals, named].every((n) => n === 3) && tip !== GENESIS,
    }
  }
}

if (import.meta.main) conclude(await poison(await kafkaWorld(), numberArgument('rounds', 10)))
