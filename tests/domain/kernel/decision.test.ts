import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { DECISION_LIMITS, type Decision, GENESIS, judge, writeDecision } from '../../../src/domain/kernel/decision.ts'
import { hmacHex, sha256Hex } from '../../../src/lib/crypto/digest.ts'

const macKey = new Uint8Array(32).fill(1)
const decision = (more: Partial<Decision> = {}): Decision => ({
  parent: GENESIS,
  at: '2026-11-20T12:00:00.000Z',
  actor: { type: 'operator', id: 'op_1' },
  by: 'ins_1',
  cause: null,
  v: 1,
  events: [{ type: 'tenant.created', data: { id: 'ten_1' } }],
  ...more,
})
/** Any body with a valid MAC: what only a holder of the key can make. */
const sealed = (body: string): Uint8Array => Buffer.from(`${body},"mac":"${hmacHex(macKey, body)}"}`)
const bodyOf = (value: unknown): string => JSON.stringify(value).slice(0, -1)

// docs/behaviour.md: "Log and events"
describe('the counting rule', () => {
  test('given the tip as parent and a valid MAC, it counts; on any other tip it is lost', () => {
    const { bytes, id } = writeDecision(decision(), macKey)
    expect(judge(GENESIS, bytes, macKey)).toEqual({ kind: 'counts', id, decision: decision() })
    expect(judge('f'.repeat(64), bytes, macKey)).toEqual({ kind: 'lost', id, decision: decision() })
  })

  test('the id is the digest of the bytes as they stand in the log', () => {
    const { bytes, id } = writeDecision(decision(), macKey)
    expect(id).toBe(sha256Hex(bytes))
  })

  test('two processes that decide the same at the same time write different records', () => {
    expect(writeDecision(decision({ by: 'a' }), macKey).id).not.toBe(writeDecision(decision({ by: 'b' }), macKey).id)
  })

  test('S31: another key, or any changed byte: it never counts', () => {
    const { bytes } = writeDecision(decision(), macKey)
    expect(judge(GENESIS, bytes, new Uint8Array(32)).kind).toBe('forged')
    for (let at = 0; at < bytes.length; at++) {
      const changed = bytes.map((byte, index) => (index === at ? byte ^ 0x01 : byte))
      expect(['forged', 'unreadable']).toContain(judge(GENESIS, changed, macKey).kind)
    }
  })

  test.each([
    ['another version', { ...decision(), v: 2 }],
    ['no parent', { ...decision(), parent: 'x' }],
    ['an upper-case parent', { ...decision(), parent: 'F'.repeat(64) }],
    ['a time that only some engines read', { ...decision(), at: 'Nov 20 2026' }],
    ['a time that does not exist', { ...decision(), at: '2026-13-01T00:00:00.000Z' }],
    ['no actor', { ...decision(), actor: null }],
    ['a writer that is no text', { ...decision(), by: 3 }],
    ['no cause member', { ...decision(), cause: undefined }],
    ['no events', { ...decision(), events: [] }],
    ['events that are no list', { ...decision(), events: { length: 1 } }],
    ['an event without data', { ...decision(), events: [{ type: 'x' }] }],
    ['data that is a list', { ...decision(), events: [{ type: 'x', data: [] }] }],
    ['too many events', { ...decision(), events: Array.from({ length: 1_025 }, () => ({ type: 'x', data: {} })) }],
    ['a list', [1]],
  ])('with a valid MAC but %s it is unreadable', (_, value) => {
    expect(judge(GENESIS, sealed(bodyOf(value)), macKey).kind).toBe('unreadable')
  })

  test('depth and size have bounds', () => {
    const nested = (depth: number): unknown => (depth === 0 ? 1 : { a: nested(depth - 1) })
    const deep = (depth: number) => sealed(bodyOf({ ...decision(), events: [{ type: 'x', data: nested(depth) }] }))
    expect(judge(GENESIS, deep(DECISION_LIMITS.depth - 3), macKey).kind).toBe('counts')
    expect(judge(GENESIS, deep(DECISION_LIMITS.depth - 2), macKey).kind).toBe('unreadable')
    const large = sealed(bodyOf({ ...decision(), actor: { type: 'system', id: 'x'.repeat(70_000) } }))
    expect(judge(GENESIS, large, macKey)).toMatchObject({ kind: 'unreadable', reason: 'too large' })
  })

  test('which times count is arithmetic, and the same as the engine of the first releases said', () => {
    const two = (value: number) => String(value).padStart(2, '0')
    const counts = (at: string) => judge(GENESIS, sealed(bodyOf(decision({ at }))), macKey).kind === 'counts'
    for (const year of ['0000', '1969', '1970', '2026', '2028', '9999'])
      for (let month = 0; month <= 13; month++)
        for (const day of [0, 1, 28, 29, 30, 31, 32])
          for (const clock of [
            '00:00:00.000',
            '23:59:59.999',
            '24:00:00.000',
            '24:00:00.001',
            '25:00:00.000',
            '12:60:00.000',
          ]) {
            const at = `${year}-${two(month)}-${two(day)}T${clock}Z`
            if (counts(at) !== !Number.isNaN(Date.parse(at))) throw new Error(at)
          }
  })

  test('it is total: any bytes have a verdict', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 400 }), (bytes) => {
        expect(['unreadable', 'forged']).toContain(judge(GENESIS, bytes, macKey).kind)
      }),
    )
    fc.assert(
      fc.property(fc.json(), (text) => {
        expect(judge(GENESIS, sealed(text), macKey).kind).toBe('unreadable')
      }),
    )
  })

  test('what is no UTF-8 is unreadable, and a byte order mark is read past, as the decoder of the platform does', () => {
    const decoder = new TextDecoder('utf-8', { fatal: true })
    const text = bodyOf(decision({ actor: { type: 'key', id: 'ü€𝄞' } }))
    const byte = fc.constantFrom(
      0x00,
      0x7f,
      0x80,
      0xbf,
      0xc0,
      0xc3,
      0xe2,
      0xed,
      0xa0,
      0xef,
      0xbb,
      0xf0,
      0xf4,
      0x90,
      0xff,
    )
    const change = fc.record({ at: fc.nat({ max: 300 }), bytes: fc.array(byte, { minLength: 1, maxLength: 4 }) })
    fc.assert(
      fc.property(change, fc.boolean(), ({ at, bytes }, marked) => {
        const body = Buffer.concat([Buffer.from(marked ? '\ufeff' : ''), Buffer.from(text)])
        body.set(bytes, Math.min(at, body.length - bytes.length))
        const record = Buffer.concat([body, Buffer.from(`,"mac":"${hmacHex(macKey, body)}"}`)])
        let read: unknown = null
        try {
          read = JSON.parse(`${decoder.decode(body)}}`)
        } catch {
          expect(judge(GENESIS, record, macKey)).toMatchObject({ kind: 'unreadable', reason: 'not JSON' })
          return
        }
        const verdict = judge(GENESIS, record, macKey)
        if ('decision' in verdict) expect(verdict.decision).toEqual(read as Decision)
        else expect(verdict.reason).not.toBe('not JSON')
      }),
      { numRuns: 2_000 },
    )
    const marked = Buffer.from(`\ufeff${bodyOf(decision())}`)
    const record = Buffer.concat([marked, Buffer.from(`,"mac":"${hmacHex(macKey, marked)}"}`)])
    expect(judge(GENESIS, record, macKey).kind).toBe('counts')
  })

  test('what it depends on is frozen: a record of the first release counts for ever', () => {
    const recorded =
      '{"parent":"0000000000000000000000000000000000000000000000000000000000000000","at":"2026-11-20T12:00:00.000Z","actor":{"type":"operator","id":"op_1"},"by":"ins_1","cause":null,"v":1,"events":[{"type":"tenant.created","data":{"id":"ten_1"}}],"mac":"MAC"}'
    const verdict = judge(GENESIS, Buffer.from(recorded.replace('MAC', MAC)), macKey)
    expect(verdict).toMatchObject({ kind: 'counts', id: ID })
  })
})

const MAC = '0f172341d92187ffa7c73e2b4ab8b68d06c1432488dc2912118d82ca31ad1efd'
const ID = 'a3d800b8258a25508cb12b17e45dbf0581bd91a3cbdac5289de31da8bb338c5f'

describe('writing', () => {
  test('what would not be read is not written', () => {
    const wide = Array.from({ length: 300 }, (_, index) => ({ type: 'x', data: { text: 'y'.repeat(250), index } }))
    expect(() => writeDecision(decision({ events: wide }), macKey)).toThrow(RangeError)
    expect(() => writeDecision(decision({ events: [] }), macKey)).toThrow(RangeError)
    expect(() => writeDecision(decision({ at: 'now' }), macKey)).toThrow(RangeError)
  })

  test('what is written is read back as it was, whatever the text', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string({ unit: 'grapheme' }), fc.jsonValue({ maxDepth: 5 })), (data) => {
        const plain = JSON.parse(JSON.stringify(data))
        const given = decision({ events: [{ type: 'x', data: plain }] })
        const verdict = judge(GENESIS, writeDecision(given, macKey).bytes, macKey)
        expect(verdict.kind).toBe('counts')
        if ('decision' in verdict) expect(JSON.stringify(verdict.decision.events)).toBe(JSON.stringify(given.events))
      }),
    )
  })
})
