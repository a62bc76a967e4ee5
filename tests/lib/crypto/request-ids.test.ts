import { expect, test } from 'bun:test'
import { lastTraceId, newRequestId } from '../../../src/lib/crypto/request-ids.ts'

const FORM = /^req_[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

const timeOf = (id: string): number => Number.parseInt(id.slice(4, 17).replace('-', ''), 16)

test('an id is a UUIDv7 of its time, and its trace id the same digits', () => {
  for (const atMs of [0, 1, 255, 256, 1_795_454_693_735, 2 ** 48 - 1]) {
    const id = newRequestId(atMs)
    expect(id).toMatch(FORM)
    expect(timeOf(id)).toBe(atMs)
    expect(lastTraceId()).toBe(id.slice(4).replaceAll('-', ''))
  }
})

test('a million ids, none twice; in order within a millisecond, and from one to the next', () => {
  const seen = new Set<string>()
  let last = ''
  for (let i = 0; i < 1_000_000; i++) {
    const id = newRequestId(1_795_454_693_735 + Math.floor(i / 1_000))
    if (id <= last) throw new Error(`${id} comes after ${last}`)
    last = id
    seen.add(id)
  }
  expect(seen.size).toBe(1_000_000)
})

test('a clock that goes back is believed: no id is made twice by it', () => {
  const seen = new Set<string>()
  for (let round = 0; round < 100; round++)
    for (const atMs of [1_000, 2_000, 1_000]) for (let i = 0; i < 20; i++) seen.add(newRequestId(atMs))
  expect(seen.size).toBe(6_000)
})

test('every digit that is random takes all of its values', () => {
  const digits = Array.from({ length: 40 }, () => new Set<string>())
  for (let i = 0; i < 5_000; i++) for (const [place, digit] of [...newRequestId(i)].entries()) digits[place]!.add(digit)
  for (const place of [24, 25, 26, ...Array.from({ length: 12 }, (_, i) => 28 + i)])
    expect(digits[place]!.size).toBe(16)
  expect([...digits[23]!].sort()).toEqual(['8', '9', 'a', 'b'])
})
