import { expect, test } from 'bun:test'
import { Stages } from '../../src/lib/stages.ts'
import { turnMs, turnWallMs } from '../../src/lib/turn-clock.ts'

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
  laterThan(turnMs, before.monotonicMs)
  laterThan(turnWallMs, before.wallMs)
  expect(Math.abs(turnMs() - performance.now())).toBeLessThan(1_000)
  expect(Math.abs(turnWallMs() - Date.now())).toBeLessThan(1_000)
})

test('each part of a turn has one time, no earlier than the one before it; what writes at its end has the clocks', () => {
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

test('a part that throws lets the time go', () => {
  for (const thrower of ['settle', 'end']) {
    const turn = turnOf((name) => {
      if (name === thrower) throw new Error('thrown on purpose')
    })
    expect(turn).toThrow('thrown on purpose')
    const after = times()
    bothMove()
    const later = times()
    expect(later.monotonicMs).toBeGreaterThan(after.monotonicMs)
    expect(later.wallMs).toBeGreaterThan(after.wallMs)
  }
})
