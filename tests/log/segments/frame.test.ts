// A frame is read as it was written, and hides no damage.
import { expect, test } from 'bun:test'
import { frameBound, nextFrame, readFrame, writeFrame } from '../../../src/log/segments/frame.ts'

const written = (data: string | readonly string[]): Buffer => {
  const buffer = Buffer.alloc(frameBound('request.settled', 'ten_1/ins_1', data))
  const numbers = { record: 7, offset: 5, sequence: 3, atMs: 1_770_000_000_000 }
  return buffer.subarray(
    0,
    writeFrame(buffer, 0, 'requests', numbers, { type: 'request.settled', subject: 'ten_1/ins_1', data }),
  )
}

test('a frame is read whole, found behind other bytes, and damaged when a byte is', () => {
  const frame = written('{"cost":"é"}')
  expect(readFrame(frame, 0, frame.length)).toMatchObject({ record: 7, sequence: 3, data: '{"cost":"é"}', start: 0 })
  const behind = Buffer.concat([Buffer.from([0xff, 0xfe, 0x4c, 0x33, 1, 2]), frame])
  expect(nextFrame(behind, 0, behind.length)).toMatchObject({ start: 6, end: behind.length })
  for (let at = 0; at < frame.length; at++) {
    const harmed = Buffer.from(frame)
    harmed[at]! ^= 1
    const read = readFrame(harmed, 0, harmed.length)
    expect(typeof read, `byte ${at}`).toBe('string')
  }
})

test('a text in pieces stands there as if it had been whole', () => {
  expect(written(['{"a":"', 'é', '"}'])).toEqual(written('{"a":"é"}'))
})
