// Envelopes as the sender writes them.
import { afterAll, expect, test } from 'bun:test'
import { join } from 'node:path'
import fc from 'fast-check'
import { readEnvelope, writeEnvelope } from '../../../src/log/envelope.ts'
import { EnvelopeHead, SpooledEnvelope } from '../../../src/log/sender/envelope-bytes.ts'
import { openTestSpool, readAll, temporaryFolder } from '../support.ts'

const folder = temporaryFolder()
afterAll(() => folder.remove())
let folders = 0
const fresh = () => join(folder.path, String(folders++))

test('an envelope written as bytes is the one that is written as text, whatever subject and data say', async () => {
  const spool = await openTestSpool(fresh())
  const text = fc.string({ unit: 'grapheme', maxLength: 40 })
  const given = fc.sample(fc.tuple(text, fc.json()), 200)
  given.push(['large', JSON.stringify('é'.repeat(30_000))], ['none', 'null'], ['none', '1'])
  for (const [subject, data] of given) await spool.append('requests', 'request.admitted', subject, data)
  const decoder = new TextDecoder()
  const { records } = readAll(spool.directory)
  const made = records.map(
    (record) => new SpooledEnvelope(record, new EnvelopeHead(record, record.type, record.subject), record.subject),
  )
  records.forEach((record, index) => {
    const [, data] = given[index]!
    const { value, valueBound, key } = made[index]!
    expect(decoder.decode(value)).toBe(writeEnvelope(record, record.type, record.subject, record.atMs, data))
    expect(readEnvelope(value)!.subject).toBe(record.subject)
    expect([key, value.length <= valueBound]).toEqual([record.subject, true])
  })
  expect(records.length).toBe(given.length)
  await spool.close()
})

test('a head that is written again and again says each number and time, forwards, backwards and of any length', () => {
  const origin = { instance: 'one', epoch: 'e1' }
  const head = new EnvelopeHead(origin, 'request.settled', 'a "subject"')
  const into = Buffer.alloc(2_000)
  const noon = Date.UTC(2026, 10, 25, 12)
  const sequence = fc.oneof(fc.nat(12), fc.nat(1_100), fc.maxSafeNat())
  const atMs = fc.oneof(
    fc.integer({ min: noon, max: noon + 1_200 }),
    fc.integer({ min: -8.64e15, max: 8.64e15 }),
    fc.double({ min: noon, max: noon + 5, noNaN: true }),
  )
  fc.assert(
    fc.property(fc.array(fc.tuple(sequence, atMs), { minLength: 1, maxLength: 30 }), (all) => {
      for (const [number, time] of all) {
        const end = head.write(into, 7, number, time)
        const whole = writeEnvelope({ ...origin, sequence: number }, head.type, 'a "subject"', time, '')
        expect(`${into.toString('utf8', 7, end)}}`).toBe(whole)
        expect(end - 7).toBeLessThanOrEqual(head.mostBytes)
      }
    }),
    { numRuns: 300 },
  )
  expect(() => head.write(into, 0, 1, Number.NaN)).toThrow(RangeError)
  expect(head.write(into, 0, 1, noon)).toBeGreaterThan(100)
})
