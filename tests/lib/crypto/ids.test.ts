import { expect, test } from 'bun:test'
import { newId } from '../../../src/lib/crypto/ids.ts'

const FORM = /^req_[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

const timeOf = (id: string): number => Number.parseInt(id.slice(4, 17).replace('-', ''), 16)

test('an id is a UUIDv7 of its time', () => {
  for (const atMs of [0, 1, 255, 256, 1_795_454_693_735, 2 ** 48 - 1]) {
    const id = newId('req', atMs)
    expect(id).toMatch(FORM)
    expect(timeOf(id)).toBe(atMs)
  }
  const beforeMs = Date.now()
  const atMs = timeOf(newId('req'))
  expect(atMs).toBeGreaterThanOrEqual(beforeMs)
  expect(atMs).toBeLessThanOrEqual(Date.now())
})

test('ids are in order within a millisecond, and from one to the next; none is made twice', () => {
  let last = ''
  for (let i = 0; i < 100_000; i++) {
    const id = newId('req', 1_795_454_693_735 + Math.floor(i / 1_000))
    if (id <= last) throw new Error(`${id} comes after ${last}`)
    last = id
  }
})

test('a clock that goes back makes no id twice', () => {
  const seen = new Set<string>()
  for (let round = 0; round < 100; round++)
    for (const atMs of [1_000, 2_000, 1_000]) for (let i = 0; i < 20; i++) seen.add(newId('req', atMs))
  expect(seen.size).toBe(6_000)
})
