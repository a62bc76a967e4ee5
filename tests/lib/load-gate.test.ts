// Admission by load, on looks that are told: what is let in while the loop is late, and how it comes back.
import { expect, test } from 'bun:test'
import { LoadGate } from '../../src/lib/load-gate.ts'

const EVERY_MS = 50
const MAX_DELAY_MS = 200
const MB = 1_048_576

const gateWith = (more: { maxDelayMs?: number | null; maxMemoryBytes?: number | null } = {}) =>
  new LoadGate({ everyMs: EVERY_MS, maxDelayMs: MAX_DELAY_MS, maxMemoryBytes: null, ...more })

/** A turn in which so many ask. How many were let in. */
const turn = (gate: LoadGate, asking: number, elapsedMs: number, memoryBytes = 0): number => {
  let letIn = 0
  for (let i = 0; i < asking; i++) {
    if (gate.room <= 0) gate.refused++
    else {
      gate.room--
      letIn++
    }
  }
  gate.look(elapsedMs, memoryBytes)
  return letIn
}

test('while the loop is in time everybody is let in, whatever their number', () => {
  const gate = gateWith()
  for (let i = 0; i < 1_000; i++) expect(turn(gate, 5_000, EVERY_MS + (i % 100))).toBe(5_000)
  expect([gate.refused, gate.perSecond]).toEqual([0, Number.POSITIVE_INFINITY])
})

test('one pause, however long, is no overload', () => {
  const gate = gateWith()
  turn(gate, 100, 30_000)
  for (let i = 0; i < 100; i++) expect(turn(gate, 100, EVERY_MS)).toBe(100)
  expect(gate.refused).toBe(0)
})

test('a loop that stays late lets in less and less, and never nobody', () => {
  const gate = gateWith()
  let rate = Number.POSITIVE_INFINITY
  for (let i = 0; i < 5; i++) turn(gate, 1_000, 600)
  expect(gate.perSecond).toBeLessThan(1_000 / 0.6)
  for (let i = 0; i < 100; i++) {
    expect(turn(gate, 1_000, 600)).toBeGreaterThanOrEqual(1)
    expect(gate.perSecond).toBeLessThanOrEqual(rate)
    rate = gate.perSecond
  }
  expect(gate.perSecond).toBe(50)
  expect(gate.refused).toBeGreaterThan(90_000)
})

test('back in time it opens slowly, and the bound is gone after five seconds without a refusal', () => {
  const gate = gateWith()
  for (let i = 0; i < 50; i++) turn(gate, 1_000, 600)
  const before = gate.perSecond
  let turns = 0
  while (gate.perSecond !== Number.POSITIVE_INFINITY && turns < 1_000) {
    turn(gate, 2, EVERY_MS)
    turns++
  }
  expect(before).toBe(50)
  expect(turns * EVERY_MS).toBeGreaterThanOrEqual(5_000)
  expect(turns * EVERY_MS).toBeLessThan(15_000)
  expect(turn(gate, 100_000, EVERY_MS)).toBe(100_000)
})

test('it settles where the loop is about as late as it may be: a server of so much work a second serves it', () => {
  const gate = gateWith()
  const [costMs, refusalMs, offered] = [2, 0.03, 5_000] // 500 a second at most; ten times that are asked
  let queue = 0
  let servedLate = 0
  let timeMs = 0
  for (let i = 0; i < 1_500; i++) {
    const elapsedMs = Math.max(EVERY_MS, queue)
    timeMs += elapsedMs
    const asking = Math.round((offered * elapsedMs) / 1_000)
    const letIn = turn(gate, asking, elapsedMs)
    queue = Math.max(0, queue - elapsedMs) + letIn * costMs + (asking - letIn) * refusalMs
    if (i >= 500) servedLate += letIn
    else if (i === 499) timeMs = 0
  }
  const goodput = (servedLate * 1_000) / timeMs
  expect(goodput).toBeGreaterThan(350)
  expect(goodput).toBeLessThan(500)
})

test('memory above its bound lets in less, until it is well below it again', () => {
  const gate = gateWith({ maxMemoryBytes: 100 * MB })
  turn(gate, 1_000, EVERY_MS, 99 * MB)
  expect(gate.perSecond).toBe(Number.POSITIVE_INFINITY)
  for (let i = 0; i < 50; i++) turn(gate, 1_000, EVERY_MS, 101 * MB)
  expect(gate.perSecond).toBe(50)
  turn(gate, 1, EVERY_MS, 97 * MB) // not yet
  expect(gate.perSecond).toBe(50)
  turn(gate, 1, EVERY_MS, 94 * MB)
  expect(gate.perSecond).toBeGreaterThan(50)
})

test('off is off', () => {
  const gate = gateWith({ maxDelayMs: null })
  for (let i = 0; i < 100; i++) expect(turn(gate, 1_000, 10_000)).toBe(1_000)
})
