// Admission by load, on given measurements: what is admitted while the loop is late, and how it recovers.
import { expect, test } from 'bun:test'
import { LoadGate } from '../../../src/lib/event-loop/load-gate.ts'

const EVERY_MS = 50
const MAX_DELAY_MS = 200
const MB = 1_048_576

const gateWith = (more: { maxDelayMs?: number | null; maxMemoryBytes?: number | null } = {}) => {
  const clock = { ms: 0 }
  const settings = { everyMs: EVERY_MS, maxDelayMs: MAX_DELAY_MS, maxMemoryBytes: null, ...more, nowMs: () => clock.ms }
  return Object.assign(new LoadGate(settings), { clock })
}
type Gate = ReturnType<typeof gateWith>

/** One request. Returns whether it is admitted. */
const ask = (gate: Gate): boolean => {
  if (gate.room <= 0 && !gate.more()) {
    gate.refused++
    return false
  }
  gate.room--
  return true
}

/** A turn of `elapsedMs` with `asking` requests, and then a measurement. Returns how many are admitted. */
const turn = (gate: Gate, asking: number, elapsedMs: number, memoryBytes = 0, ranMs = elapsedMs): number => {
  let letIn = 0
  for (let i = 0; i < asking; i++) if (ask(gate)) letIn++
  gate.clock.ms += elapsedMs
  gate.measure(memoryBytes, { ranMs, idleMs: 0 })
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

test('a loop that is late without a request is no overload: a start, a long fold', () => {
  const gate = gateWith()
  for (let i = 0; i < 100; i++) turn(gate, 0, 1_000)
  expect(turn(gate, 1_000, EVERY_MS)).toBe(1_000)
  expect([gate.refused, gate.perSecond]).toEqual([0, Number.POSITIVE_INFINITY])
})

test('a loop that is late because another program has the processor is no overload', () => {
  const gate = gateWith()
  for (let i = 0; i < 100; i++) expect(turn(gate, 100, 600, 0, 200)).toBe(100)
  expect([gate.refused, gate.perSecond]).toEqual([0, Number.POSITIVE_INFINITY])
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

test('what has piled up is let in for as long as the turn is not late, and the rest is refused', () => {
  const gate = gateWith()
  turn(gate, 1, EVERY_MS)
  let letIn = 0
  for (let i = 0; i < 2_000; i++)
    if (ask(gate)) {
      letIn++
      gate.clock.ms += 2 // what it takes to let one in
    }
  expect(letIn * 2).toBeGreaterThan(5 * MAX_DELAY_MS)
  expect(letIn * 2).toBeLessThan(EVERY_MS + 5 * MAX_DELAY_MS + 32 * 2 + 1)
  expect(gate.refused).toBe(2_000 - letIn)
  gate.measure(0)
  expect(turn(gate, 10, EVERY_MS)).toBe(10)
})

/**
 * Requests that a server completes a second, at ten times the load that it can serve. A request costs 2 ms and a
 * refusal 0.03 ms. `later`: the share of the work that runs after the turn. `stolenMs`: processor time that other
 * programs take in every fifth turn.
 */
const goodputOf = (later: number, stolenMs = 0, isKnown = true): number => {
  const gate = gateWith()
  const [costMs, refusalMs, perSecond] = [2, 0.03, 5_000]
  let waiting = 0
  let owedMs = 0
  let served = 0
  let fromMs = 0
  for (let i = 0; i < 3_000; i++) {
    const startedMs = gate.clock.ms
    gate.clock.ms += owedMs
    owedMs = 0
    if (i % 5 === 0) gate.clock.ms += stolenMs
    for (let asking = Math.round(waiting); asking > 0; asking--) {
      if (ask(gate)) {
        served++
        gate.clock.ms += costMs * (1 - later)
        owedMs += costMs * later
      } else gate.clock.ms += refusalMs
    }
    const stolen = i % 5 === 0 ? stolenMs : 0
    const ranMs = gate.clock.ms - startedMs - stolen
    gate.clock.ms = Math.max(gate.clock.ms, startedMs + EVERY_MS)
    const idleMs = gate.clock.ms - startedMs - stolen - ranMs
    waiting = ((gate.clock.ms - startedMs) * perSecond) / 1_000
    gate.measure(0, isKnown ? { ranMs, idleMs } : undefined)
    if (i === 500) [served, fromMs] = [0, gate.clock.ms]
  }
  return (served * 1_000) / (gate.clock.ms - fromMs)
}

test.each([
  [0, true],
  [0.5, true],
  [0.9, true],
  [0, false],
  [0.5, false],
  [0.9, false],
])(
  'asked for ten times what it can, a server serves most of what it can (%p of the work later; whether it rests is known: %p)',
  (later, isKnown) => {
    const goodput = goodputOf(later, 0, isKnown)
    expect(goodput).toBeGreaterThan(350)
    expect(goodput).toBeLessThan(500)
  },
)

test('a server whose processor others take now and then goes on serving what is left of it', () => {
  expect(goodputOf(0.5, 400)).toBeGreaterThan(200)
})

test('memory above its bound lets in less, until it is well below it again', () => {
  const gate = gateWith({ maxMemoryBytes: 100 * MB })
  turn(gate, 1_000, EVERY_MS, 99 * MB)
  expect(gate.perSecond).toBe(Number.POSITIVE_INFINITY)
  for (let i = 0; i < 150; i++) turn(gate, 1_000, EVERY_MS, 101 * MB)
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
