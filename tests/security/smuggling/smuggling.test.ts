// The own server and an independent reader on the same bytes. `npm run security` tries 40,000 cases.
import { expect, test } from 'bun:test'
import { caseOf, Draw } from './cases.ts'
import { differenceOf, fuzz } from './fuzz.ts'
import type { Reading } from './own.ts'

test('S22: no request is seen that another parser of HTTP does not see, or reads otherwise', async () => {
  const result = await fuzz(2_000, 7, Bun.which('node')!)
  expect(result.differences).toEqual([])
  expect(result.agreed).toBeGreaterThan(500)
}, 120_000)

test('cases come from their seed alone', () => {
  const drawn = (seed: number) => {
    const draw = new Draw(seed)
    return Array.from({ length: 50 }, () => Buffer.concat([...caseOf(draw)]).toString('latin1'))
  }
  expect(drawn(3)).toEqual(drawn(3))
  expect(drawn(3)).not.toEqual(drawn(4))
})

test('what would be a difference is told', () => {
  const request = { method: 'POST', target: '/', headers: [], body: 'a' }
  const reading = (requests: Reading['requests'], refused = false): Reading => ({ requests, refused })
  expect(differenceOf(reading([request]), reading([request]), '')).toBeNull()
  expect(differenceOf(reading([], true), reading([request]), '')).toBeNull()
  expect(differenceOf(reading([{ ...request, body: '' }]), reading([request]), '')).toContain('differently')
  expect(differenceOf(reading([request, request]), reading([request]), '')).toContain('not there')
  expect(differenceOf(reading([request]), reading([], true), '')).toContain('refused')
  expect(differenceOf(reading([]), reading([request]), '')).toContain('waits')
})
