// Type and subject of records are remembered: what is read is what was written, whoever came before.
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { frameBound, readFrame, writeFrame } from '../../../src/log/segments/frame.ts'
import { subjectIn } from '../../../src/log/segments/frame-subject.ts'

const text = fc.oneof(
  fc.constantFrom('a', 'ab', 'abc', 'b', 'é', 'request.settled', 'request.admitted', ''),
  fc.string({ unit: 'grapheme', maxLength: 8 }),
)

test('any run of types and subjects, also such as read alike one after the other', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(text, text), { minLength: 1, maxLength: 30 }), (pairs) => {
      const numbers = { record: 1, offset: 2, sequence: 3, atMs: 4 }
      const frames = pairs.map(([type, subject]) => {
        const buffer = Buffer.alloc(frameBound(type, subject, '{}'))
        return buffer.subarray(0, writeFrame(buffer, 0, 'requests', numbers, { type, subject, data: '{}' }))
      })
      for (const [i, frame] of frames.entries()) {
        const [type, subject] = pairs[i]!
        expect(readFrame(frame, 0, frame.length)).toMatchObject({ type, subject, data: '{}' })
      }
    }),
    { numRuns: 300 },
  )
})

test('bytes that are read into later do not change what is remembered', () => {
  const buffer = Buffer.from('t1s1')
  expect(subjectIn(buffer, 0, 2, 4)).toMatchObject({ type: 't1', subject: 's1' })
  buffer.write('t2s2')
  expect(subjectIn(buffer, 0, 2, 4)).toMatchObject({ type: 't2', subject: 's2' })
  expect(subjectIn(Buffer.from('t1s1'), 0, 2, 4)).toMatchObject({ type: 't1', subject: 's1' })
  expect(subjectIn(Buffer.from('t1s1'), 0, 1, 4)).toMatchObject({ type: 't', subject: '1s1' })
})

test('what is the same is one object, wherever it is read; what differs in one byte, wherever that stands, is another', () => {
  for (let length = 1; length <= 40; length++) {
    const text = 'abcdefgh'.repeat(5).slice(0, length)
    const known = subjectIn(Buffer.from(`..${text}`), 2, 3, 2 + length)
    expect(known).toMatchObject({ type: 'a', subject: text.slice(1) })
    for (let at = 0; at < length; at++) {
      const other = `${text.slice(0, at)}X${text.slice(at + 1)}`
      const found = subjectIn(Buffer.from(other), 0, 1, length)
      expect(found).toMatchObject({ type: other.slice(0, 1), subject: other.slice(1) })
      expect(subjectIn(Buffer.from(`----${other}`), 4, 5, 4 + length)).toBe(found)
      expect(subjectIn(Buffer.from(`-${text}`), 1, 2, 1 + length).subject).toBe(text.slice(1))
    }
  }
})
