import { expect, test } from 'bun:test'
import { Stages } from '../../../src/lib/event-loop/stages.ts'
import { freshTurnMs, turnMs, turnWallMs } from '../../../src/lib/event-loop/turn-clock.ts'

/** Until a clock says something else than it did. */
const laterThan = (clock: () => number, thenMs: number): number => {
  for (;;) {
    const nowMs = clock()
    if (nowMs !== thenMs) return nowMs
  }
}
const times = () => ({ monotonicMs: turnMs(), wallMs: turnWallMs() })
const bothMove = () => {
  laterThan(performance.now.bind(performance), performance.now())
  laterThan(Date.now, Date.now())
}

/** One turn of stages: what each of its parts sees, twice, with clocks that move in between. */
const turnOf = (part: (name: string) => void) => {
  let turn = () => {}
  const stages = new Stages(
    (made) => {
      turn = made
    },
    () => part('settle'),
  )
  stages.arrived({ tell: () => part('tell') })
  stages.begins({
    begin() {
      part('begin')
      return true
    },
  })
  stages.atEnd(() => part('end'))
  return () => turn()
}

test('outside of a turn it is what the clocks say', () => {
  const before = times()
  bothMove()
  const after = times()
  expect(after.monotonicMs).toBeGreaterThan(before.monotonicMs)
  expect(after.wallMs).toBeGreaterThan(before.wallMs)
  expect(Math.abs(turnMs() - performance.now())).toBeLessThan(1_000)
  expect(Math.abs(turnWallMs() - Date.now())).toBeLessThan(1_000)
})

test('each part of a turn has one time, no earlier than the one before it; what is done at its end has the clocks', () => {
  const seen: { name: string; first: ReturnType<typeof times>; again: ReturnType<typeof times> }[] = []
  turnOf((name) => {
    const first = times()
    bothMove()
    seen.push({ name, first, again: times() })
  })()
  expect(seen.map(({ name }) => name)).toEqual(['tell', 'begin', 'settle', 'end', 'settle'])
  for (const { name, first, again } of seen)
    if (name === 'end') expect(again).not.toEqual(first)
    else expect(again).toEqual(first)
  for (let i = 1; i < seen.length; i++) {
    expect(seen[i]!.first.monotonicMs).toBeGreaterThan(seen[i - 1]!.first.monotonicMs)
    expect(seen[i]!.first.wallMs).toBeGreaterThan(seen[i - 1]!.first.wallMs)
  }
  const after = times()
  bothMove()
  expect(times()).not.toEqual(after)
})

test('it is the time when the first of a part asked, until somebody has it read anew', () => {
  let begunMs = 0
  turnOf((name) => {
    if (name !== 'begin') return
    begunMs = performance.now()
    bothMove()
    const first = turnMs()
    const begunWallMs = turnWallMs()
    expect(first).toBeGreaterThan(begunMs)
    bothMove()
    const fresh = freshTurnMs()
    expect(fresh).toBeGreaterThan(first)
    const wallMs = turnWallMs()
    expect(wallMs).toBeGreaterThan(begunWallMs)
    bothMove()
    expect(turnMs()).toBe(fresh)
    expect(turnWallMs()).toBe(wallMs)
  })()
  expect(begunMs).toBeGreaterThan(0)
  const outside = freshTurnMs()
  bothMove()
  expect(turnMs()).toBeGreaterThan(outside)
})

test('a part that throws lets the time go', () => {
  let settled = 0
  const throwers: Record<string, (name: string) => boolean> = {
    first: (name) => name === 'settle',
    last: (name) => name === 'settle' && ++settled === 2,
  }
  for (const throws of Object.values(throwers)) {
    const turn = turnOf((name) => {
      times()
      if (throws(name)) throw new Error('thrown on purpose')
    })
    expect(turn).toThrow('thrown on purpose')
    const after = times()
    bothMove()
    const later = times()
    expect(later.monotonicMs).toBeGreaterThan(after.monotonicMs)
    expect(later.wallMs).toBeGreaterThan(after.wallMs)
  }
})
