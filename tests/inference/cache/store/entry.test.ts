import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { FlushBook } from '../../../../src/inference/cache/flush.ts'
import {
  type EntryContent,
  MOST_HEAD_BYTES,
  openEntry,
  packEntry,
  readFacts,
} from '../../../../src/inference/cache/store/entry.ts'
import { CONTENT, FACTS, keyOf, NOW_MS, sealed, TestKeys } from './stored-entry.ts'

const KEY = keyOf(1)
const FOR = { tenantId: 'ten_a', nowMs: NOW_MS, flushes: new FlushBook() }
const missOf = (keys: TestKeys, bytes: Uint8Array, key = KEY, more = {}) =>
  openEntry(keys, key, bytes, { ...FOR, ...more }).miss

describe('an entry', () => {
  test('opens under its key for its tenant, with all that it was made of', async () => {
    const keys = new TestKeys()
    const bytes = await sealed(keys, KEY)
    expect(openEntry(keys, KEY, bytes, FOR)).toEqual({ facts: FACTS, content: CONTENT, miss: null })
    expect(readFacts(bytes)).toEqual(FACTS)
  })

  test('is packed, and shows nothing of its content', async () => {
    const bytes = await sealed(new TestKeys(), KEY)
    expect(bytes.length).toBeLessThan(CONTENT.answer.form === 'whole' ? CONTENT.answer.json.length : 0)
    expect(Buffer.from(bytes).includes('hello')).toBe(false)
  })

  test('a short one is stored as it is', async () => {
    const keys = new TestKeys()
    const content: EntryContent = { ...CONTENT, answer: { form: 'whole', json: '{}' } }
    const opened = openEntry(keys, KEY, await sealed(keys, KEY, FACTS, content), FOR)
    expect(opened).toMatchObject({ content })
  })

  test('is a miss under another key, for another tenant, when it is expired, flushed, or its content erased', async () => {
    const keys = new TestKeys()
    const bytes = await sealed(keys, KEY)
    await sealed(keys, KEY, { ...FACTS, tenantId: 'ten_b' })
    expect(missOf(keys, bytes, keyOf(2))).toBe('forged')
    expect(missOf(keys, bytes, KEY, { tenantId: 'ten_b' })).toBe('foreign')
    expect(missOf(keys, bytes, KEY, { nowMs: FACTS.expiresMs })).toBe('expired')
    const flushes = new FlushBook()
    flushes.add({ scope: 'model', tenantId: null, target: 'gpt-small' }, 4)
    expect(missOf(keys, bytes, KEY, { flushes })).toBe('flushed')
    keys.erase('ten_a')
    expect(missOf(keys, bytes)).toBe('erased')
  })

  test('none of 1,000 that were forged, cut, swapped or made older is served', async () => {
    const keys = new TestKeys()
    const own = await sealed(keys, KEY)
    const others = await Promise.all([
      sealed(keys, keyOf(2)),
      sealed(keys, KEY, { ...FACTS, tenantId: 'ten_b' }),
      sealed(new TestKeys(), KEY),
    ])
    const line = (bytes: Uint8Array) => Buffer.from(bytes).indexOf('\n') + 1
    const rewritten = (change: object) => {
      const at = line(own)
      const head = JSON.parse(Buffer.from(own.subarray(16, at)).toString()) as object
      return Buffer.concat([
        Buffer.from(`gatelog-cache/1 ${JSON.stringify({ ...head, ...change })}\n`),
        own.subarray(at),
      ])
    }
    const forged = fc.oneof(
      fc.tuple(fc.nat({ max: own.length - 1 }), fc.integer({ min: 1, max: 255 })).map(([at, flip]) => {
        const bytes = Buffer.from(own)
        bytes[at]! ^= flip
        return bytes
      }),
      fc.nat({ max: own.length - 1 }).map((length) => Buffer.from(own.subarray(0, length))),
      fc.uint8Array({ minLength: 1, maxLength: 20 }).map((more) => Buffer.concat([own, more])),
      fc.uint8Array({ maxLength: 400 }).map((bytes) => Buffer.from(bytes)),
      fc.constantFrom(...others).map((bytes) => Buffer.from(bytes)),
      fc
        .constantFrom(...others)
        .map((bytes) => Buffer.concat([own.subarray(0, line(own)), bytes.subarray(line(bytes))])),
      fc
        .constantFrom<object>(
          { expires_ms: NOW_MS + 10_000_000 },
          { height: 100 },
          { tenant: 'ten_b' },
          { origin: 'req_2' },
          { model: 'gpt-large' },
          { content_key: 'dek_ten_b' },
          { height: 'x' },
          { rule: undefined },
        )
        .map(rewritten),
      fc.constant(
        Buffer.from(Buffer.from(own).toString('latin1').replace('gatelog-cache/1', 'gatelog-cache/0'), 'latin1'),
      ),
    )
    fc.assert(
      fc.property(forged, (bytes) => {
        const opened = openEntry(keys, KEY, bytes, FOR)
        expect(opened.miss).not.toBeNull()
      }),
      { numRuns: 1_000 },
    )
  })

  test('kept turns go, the oldest first, until it fits; an answer that is too large has no entry', () => {
    const { turns: _, ...answer } = CONTENT
    const random = Buffer.from(crypto.getRandomValues(new Uint8Array(3_000))).toString('hex')
    const turn = (number: number) => ({
      key: keyOf(number),
      facts: FACTS,
      answer: { ...answer, answer: { form: 'whole' as const, json: `"${number}${random.slice(number)}"` } },
    })
    const content = { ...CONTENT, turns: [turn(1), turn(2)] }
    const whole = packEntry(content, 1_000_000)!.length
    const less = packEntry(content, whole + MOST_HEAD_BYTES - 1)!
    expect(less.length).toBeLessThan(whole)
    expect(packEntry(content, MOST_HEAD_BYTES + 10)).toBeNull()
  })
})
