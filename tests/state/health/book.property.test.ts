// In any order of begins, ends, waits and moves: never two trials at once, never more calls than allowed, no leak, and
// frames from which the log rebuilds the same state.
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { breakerSettings } from '../../../src/state/health/breaker.ts'
import type { CallEnding, HealthCall } from '../../../src/state/health/call.ts'
import { UNOBSERVED } from '../../../src/state/health/frame.ts'
import { foldFrame, type SignalRows } from '../../../src/state/health/frames.ts'
import { entry } from '../../inference/gateway.ts'
import { world } from './world.ts'

const ROWS = [
  entry({ provider: 'alpha', maxConcurrency: 3 }),
  entry({ provider: 'alpha', name: 'large', maxConcurrency: 3 }),
  entry({ provider: 'beta' }),
]
const SETTINGS = breakerSettings({ failure_threshold: 2, minimum_requests: 4, cooldown_ms: 1_000 })

const step = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant('begin' as const), row: fc.nat(2), force: fc.boolean() }) },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('end' as const),
      which: fc.nat(20),
      ending: fc.constantFrom<CallEnding>('success', 'failure', 'failure', 'throttled', 'answered', 'abandoned'),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('content' as const), which: fc.nat(20) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.integer({ min: 0, max: 2_500 }) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('clear' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('warn' as const), row: fc.nat(2) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('look' as const) }) },
)

interface Open {
  readonly call: HealthCall
  readonly row: number
  readonly isTrial: boolean
  generation: number
}

test('any interleaving keeps the promises', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const here = world(ROWS)
      const open: Open[] = []
      const breakerOf = (row: number) =>
        [...here.book.candidates()].find(({ modelId }) => modelId === ROWS[row]!.modelId)!.breaker
      for (const each of steps) {
        if (each.do === 'begin') {
          const call = here.book.begin(ROWS[each.row]!, SETTINGS, each.force)
          if (typeof call === 'string') continue
          const breaker = breakerOf(each.row)
          // A call that got through a half-open breaker unforced is the trial.
          const isTrial =
            breaker.state === 'half_open' &&
            !open.some((o) => o.row === each.row && o.isTrial && o.generation === breaker.generation)
          if (breaker.state === 'half_open' && !isTrial) expect(each.force).toBe(true)
          if (breaker.state === 'open') expect(each.force).toBe(true)
          open.push({ call, row: each.row, isTrial, generation: breaker.generation })
          expect(open.filter(({ row }) => row < 2).length).toBeLessThanOrEqual(3)
        } else if (each.do === 'end' && open.length > 0) {
          const [ended] = open.splice(each.which % open.length, 1)
          ended!.call.end(each.ending, 10, 500)
          ended!.call.end('failure')
        } else if (each.do === 'content' && open.length > 0) {
          open[each.which % open.length]!.call.answered()
        } else if (each.do === 'wait') here.after(each.ms)
        else if (each.do === 'clear') here.book.clearBreakers()
        else if (each.do === 'warn') here.book.warn([ROWS[each.row]!.modelId])
        else here.book.current()
        for (const candidate of here.book.candidates()) {
          expect(candidate.inFlight).toBe(open.filter(({ row }) => ROWS[row]!.modelId === candidate.modelId).length)
        }
      }
      for (const { call } of open) call.end('abandoned')
      for (const candidate of here.book.candidates())
        expect([candidate.inFlight, candidate.provider.inFlight]).toEqual([0, 0])
      // No call holds the trial for ever.
      here.after(60_000)
      for (const row of ROWS) here.call(row).end('success')
      here.after(1_000)

      const last = here.book.current()
      let rows: SignalRows = new Map()
      let number = 0
      for (const event of here.events) {
        if (event.type !== 'frame.taken') continue
        rows = foldFrame(rows, event.data)
        expect(event.data.number).toBe(number + 1)
        number = event.data.number
      }
      expect(number).toBe(last.number)
      for (const { modelId } of ROWS) expect(rows.get(modelId) ?? UNOBSERVED).toEqual(last.signals(modelId))
    }),
    { numRuns: 300 },
  )
})
