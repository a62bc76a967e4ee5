// Where the sender puts records: each into the partition of its subject, in order, in an envelope of its own, whatever
// the sender has cached of earlier records.
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { APPEND_LIMITS } from '../../../src/log/append-limits.ts'
import { writeEnvelope } from '../../../src/log/envelope.ts'
import {
  frameBound,
  readFrame,
  type SegmentHeader,
  type SpoolTopic,
  writeFrame,
} from '../../../src/log/segments/frame.ts'
import { FrameOfSpool } from '../../../src/log/segments/record.ts'
import { halvesOf, type Shipment, Shipments } from '../../../src/log/sender/shipments.ts'
import { partitionOf } from '../../../src/log/topics.ts'

const targets = { requests: { topic: 'r', partitions: 3 }, operations: { topic: 'o', partitions: 2 } } as const

interface Given {
  readonly kind: SpoolTopic
  readonly type: string
  readonly subject: string
  readonly instance: string
  readonly epoch: string
}

/** As a cursor gives it out, of its own bytes. */
const recordOf = ({ kind, type, subject, instance, epoch }: Given, n: number, data = `{"n":${n}}`): FrameOfSpool => {
  const buffer = Buffer.alloc(frameBound(type, subject, data))
  const numbers = { record: n, offset: n, sequence: n, atMs: 1_795_000_000_000 + n }
  const end = writeFrame(buffer, 0, kind, numbers, { type, subject, data })
  const header: SegmentHeader = {
    ...{ format: 2, instance, epoch, record: 0, requests: 0, operations: 0, carried: 0, at_ms: 0 },
  }
  const frame = readFrame(buffer, 0, end)
  if (typeof frame === 'string') throw new Error(String(frame))
  return new FrameOfSpool(frame, header)
}

const placeOf = ({ kind, subject }: Given): string => {
  const { topic, partitions } = targets[kind]
  return `${topic}/${partitionOf(subject, partitions)}`
}

/** Loads them in batches, and says what each partition got. */
const shippedBy = (all: readonly Given[], perBatch: number): Map<string, string[]> => {
  const lanes = new Shipments(targets, { limits: APPEND_LIMITS })
  const shipped = new Map<string, string[]>()
  for (let from = 0; from < all.length; from += perBatch) {
    for (const [i, given] of all.slice(from, from + perBatch).entries()) lanes.load(recordOf(given, from + i))
    const places = lanes.unload().map((shipments) => {
      const place = `${shipments[0]!.topic}/${shipments[0]!.partition}`
      const values = shipments.flatMap(({ records }) =>
        records.map(({ key, value }) => `${key} ${Buffer.from(value).toString()}`),
      )
      shipped.set(place, [...(shipped.get(place) ?? []), ...values])
      return place
    })
    // Two of one partition would be sent beside each other, in no order.
    expect(new Set(places).size).toBe(places.length)
  }
  return shipped
}

const expected = (all: readonly Given[]): Map<string, string[]> => {
  const shipped = new Map<string, string[]>()
  for (const [n, given] of all.entries()) {
    const { type, subject, instance, epoch } = given
    const value = writeEnvelope({ instance, epoch, sequence: n }, type, subject, 1_795_000_000_000 + n, `{"n":${n}}`)
    const place = placeOf(given)
    shipped.set(place, [...(shipped.get(place) ?? []), `${subject} ${value}`])
  }
  return shipped
}

test('few subjects that come again and again, of both topics, of several types, instances and epochs', () => {
  const given: fc.Arbitrary<Given> = fc.record({
    kind: fc.constantFrom('requests', 'operations'),
    type: fc.constantFrom('request.admitted', 'request.settled', 'probe.recorded'),
    subject: fc.constantFrom('ten_a/ins_1', 'ten_b/ins_1', 'ten_a/ins_2', 'é'),
    instance: fc.constantFrom('ins_1', 'ins_2'),
    epoch: fc.constantFrom('e1', 'e2'),
  })
  const runs = fc.tuple(fc.array(given, { minLength: 1, maxLength: 120 }), fc.integer({ min: 1, max: 60 }))
  fc.assert(
    fc.property(runs, ([all, perBatch]) => expect(shippedBy(all, perBatch)).toEqual(expected(all))),
    { numRuns: 200 },
  )
})

test('more subjects and types than are remembered, and the first ones again in the same batch', () => {
  const all = Array.from({ length: 1_200 }, (_, n): Given => {
    const subject = `ten_${n % 500}/ins_1`
    const type = n % 3 === 0 ? `type_${n % 57}` : 'request.settled'
    return { kind: n % 7 === 0 ? 'operations' : 'requests', type, subject, instance: 'ins_1', epoch: 'e1' }
  })
  expect(shippedBy(all, 1_200)).toEqual(expected(all))
})

test('a record that would keep others from being packed goes alone, in its place', () => {
  const lanes = new Shipments(targets, { limits: { records: 100, bytes: 2_000_000, longestBytes: 20_000 } })
  const given: Given = { kind: 'requests', type: 'request.settled', subject: 'ten_1/one', instance: 'one', epoch: 'e1' }
  const lengths = [10, 10, 30_000, 10, 30_000, 30_000, 10]
  for (const [i, length] of lengths.entries()) lanes.load(recordOf(given, i, JSON.stringify('x'.repeat(length))))
  const [shipments] = lanes.unload()
  expect(shipments!.map(({ records }) => records.map(({ source }) => source.record))).toEqual([
    [0, 1],
    [2],
    [3],
    [4],
    [5],
    [6],
  ])
})

test('halves are the same records in order, and know how many bytes are theirs', () => {
  const lanes = new Shipments(targets, { limits: APPEND_LIMITS })
  const given: Given = { kind: 'requests', type: 'request.settled', subject: 'ten_é/one', instance: 'one', epoch: 'e1' }
  for (let n = 0; n < 7; n++) lanes.load(recordOf(given, n, JSON.stringify('x'.repeat(100 * n))))
  const [[whole]] = lanes.unload() as [[Shipment]]
  const halves = halvesOf(whole)
  expect(halves.map(({ records }) => records.map(({ source }) => source.record))).toEqual([
    [0, 1, 2],
    [3, 4, 5, 6],
  ])
  expect(halves[0]!.bytes + halves[1]!.bytes).toBe(whole.bytes)
  expect(halves[0]!.bytes).toBeLessThan(halves[1]!.bytes)
})
