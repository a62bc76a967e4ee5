import { describe, expect, test } from 'bun:test'
import { HEALTH_EVENTS } from '../../../src/domain/events/health.ts'
import { Value } from '../../../src/lib/schema/schema.ts'
import { breakerSettings } from '../../../src/state/health/breaker.ts'
import { entry } from '../../inference/gateway.ts'
import { ALPHA, BETA, GAMMA, world } from './world.ts'

const signals = (here: ReturnType<typeof world>, row = ALPHA) => here.book.current().signals(row.modelId)

test('a candidate has the names that the registry has now', () => {
  const here = world([ALPHA])
  here.fail(ALPHA, 4)
  here.fail({ ...ALPHA, name: 'renamed', provider: 'moved' })
  const opened = here.events.find(({ type }) => type === 'breaker.opened')
  expect(opened?.data).toMatchObject({ model_id: ALPHA.modelId, model: 'renamed', provider: 'moved' })
})

// docs/behaviour.md: "Health"
describe('the breaker', () => {
  test('given 4 failures, when a fifth comes in a row, then it opens and says so', () => {
    const here = world([ALPHA])
    here.fail(ALPHA, 4)
    expect(signals(here).breaker).toBe('closed')
    here.fail(ALPHA)
    expect(signals(here)).toMatchObject({ breaker: 'open', health: 0 })
    expect(here.types()).toEqual(['breaker.opened'])
    expect(here.events.find(({ type }) => type === 'breaker.opened')?.data).toMatchObject({
      reason: 'consecutive',
      failures: 5,
      requests: 5,
      cooldown_ms: 30_000,
    })
    expect(here.book.begin(ALPHA)).toBe('breaker_open')
  })

  test('given a success among the failures, then they are not in a row', () => {
    const here = world([ALPHA])
    here.fail(ALPHA, 4)
    here.succeed(ALPHA)
    here.fail(ALPHA, 4)
    expect(signals(here).breaker).toBe('closed')
  })

  test('given 10 failures among 20 calls of the last minute, then it opens by the rate, and not by 9', () => {
    const here = world([ALPHA])
    for (let i = 0; i < 9; i++) {
      here.succeed(ALPHA)
      here.fail(ALPHA)
    }
    here.succeed(ALPHA)
    expect(signals(here).breaker).toBe('closed')
    here.fail(ALPHA)
    const opened = here.events.find(({ type }) => type === 'breaker.opened')
    expect(opened?.data).toMatchObject({ reason: 'rate', requests: 20 })
  })

  test('given failures older than a minute, then they do not count for the rate', () => {
    const here = world([ALPHA])
    for (let i = 0; i < 9; i++) {
      here.succeed(ALPHA)
      here.fail(ALPHA)
    }
    here.after(61_000)
    here.succeed(ALPHA)
    here.fail(ALPHA)
    expect(signals(here).breaker).toBe('closed')
  })

  test("given a policy's own settings, then they open it and say how long", () => {
    const here = world([ALPHA])
    here.fail(ALPHA, 2, breakerSettings({ failure_threshold: 2, cooldown_ms: 500 }))
    expect(here.book.begin(ALPHA)).toBe('breaker_open')
    here.after(500)
    expect(here.call(ALPHA)).toBeDefined()
  })

  test('given an open one, when the cooldown is over, then exactly one trial is let through at a time', () => {
    const here = world([ALPHA])
    here.fail(ALPHA, 5)
    here.after(29_999)
    expect(here.book.begin(ALPHA)).toBe('breaker_open')
    here.after(1)
    expect(signals(here).breaker).toBe('half_open')
    const trial = here.call(ALPHA)
    expect(here.book.begin(ALPHA)).toBe('breaker_open')
    trial.end('abandoned')
    here.call(ALPHA).end('success')
    expect(signals(here).breaker).toBe('closed')
    expect(here.types()).toEqual(['breaker.opened', 'breaker.half_opened', 'breaker.closed'])
  })

  test('given a trial that fails, then it is open for the whole cooldown again', () => {
    const here = world([ALPHA])
    here.fail(ALPHA, 5)
    here.after(30_000)
    here.fail(ALPHA)
    here.after(29_999)
    expect(here.book.begin(ALPHA)).toBe('breaker_open')
    here.after(1)
    here.succeed(ALPHA)
    expect(signals(here).breaker).toBe('closed')
  })

  test('given a trial that streams, then its first content closes it, and what breaks later is an ordinary failure', () => {
    const here = world([ALPHA])
    here.fail(ALPHA, 5)
    here.after(30_000)
    const trial = here.call(ALPHA)
    trial.answered()
    expect(signals(here).breaker).toBe('closed')
    trial.end('failure')
    expect(signals(here).breaker).toBe('closed')
    here.fail(ALPHA, 4)
    expect(signals(here).breaker).toBe('open')
  })

  test('given an answer that refuses the request, then it is no failure, however often', () => {
    const here = world([ALPHA])
    for (let i = 0; i < 30; i++) here.call(ALPHA).end('answered')
    expect(signals(here)).toMatchObject({ breaker: 'closed', health: 1 })
  })

  test('given an open one and nobody else, then the call is forced, and what comes of it moves nothing', () => {
    const here = world([ALPHA])
    here.fail(ALPHA, 5)
    here.call(ALPHA, true).end('success')
    here.call(ALPHA, true).end('failure')
    expect(here.types()).toEqual(['breaker.opened'])
  })

  test('given calls that began before it opened, when they end, then they do not close it', () => {
    const here = world([ALPHA])
    const early = [here.call(ALPHA), here.call(ALPHA)]
    here.fail(ALPHA, 5)
    for (const call of early) call.end('success')
    expect(signals(here).breaker).toBe('open')
  })

  test('given a trial of before, when it ends after all, then it moves nothing', () => {
    const here = world([ALPHA])
    here.fail(ALPHA, 5)
    here.after(30_000)
    const trial = here.call(ALPHA)
    here.book.clearBreakers()
    here.fail(ALPHA, 5)
    trial.end('success')
    expect(signals(here).breaker).toBe('open')
  })

  test('given a reload of the policies, then breakers and cooldowns are forgotten', () => {
    const here = world([ALPHA, BETA])
    here.fail(ALPHA, 5)
    here.call(BETA).end('throttled', null, 60_000)
    here.book.clearBreakers()
    expect(signals(here).breaker).toBe('closed')
    expect(signals(here, BETA).coolingDown).toBe(false)
    expect(here.events.filter(({ type }) => type === 'breaker.closed')).toMatchObject([{ data: { reason: 'cleared' } }])
  })

  test('given a reload elsewhere, then they are forgotten once, however often it is heard of', () => {
    const here = world([ALPHA])
    here.fail(ALPHA, 5)
    const elsewhere = here.book.clearedMs + 5
    expect(here.book.applyCleared(elsewhere)).toBe(true)
    expect(signals(here).breaker).toBe('closed')
    here.fail(ALPHA, 5)
    expect(here.book.applyCleared(elsewhere)).toBe(false)
    expect(signals(here).breaker).toBe('open')
    expect(here.book.clearedMs).toBe(elsewhere)
  })

  test('given a clock behind that of the instance where they were cleared before, then a reload here still is the newest', () => {
    const here = world([ALPHA])
    const ahead = here.book.clearBreakers() + 3_600_000
    here.book.applyCleared(ahead)
    expect(here.book.clearBreakers()).toBeGreaterThan(ahead)
  })

  test('given another instance that has it open, then one failure here is enough, for some seconds', () => {
    const here = world([ALPHA, BETA])
    here.book.warn([ALPHA.modelId, 'mod_unknown'])
    expect(signals(here).breaker).toBe('closed')
    here.fail(ALPHA)
    expect(signals(here).breaker).toBe('open')
    here.book.warn([BETA.modelId])
    here.after(5_001)
    here.fail(BETA)
    expect(signals(here, BETA).breaker).toBe('closed')
  })
})

// docs/behaviour.md: "Health"
describe('a 429', () => {
  test('cools down that candidate alone, for as long as it asks, and is no failure', () => {
    const other = entry({ provider: 'alpha', name: 'large' })
    const here = world([ALPHA, other])
    for (let i = 0; i < 6; i++) here.call(ALPHA, true).end('throttled', null, 7_000)
    expect(signals(here)).toMatchObject({ breaker: 'closed', coolingDown: true })
    expect(here.book.begin(ALPHA)).toBe('cooling_down')
    expect(typeof here.book.begin(other)).toBe('object')
    here.after(7_000)
    expect(typeof here.book.begin(ALPHA)).toBe('object')
    here.after(1_000)
    expect(signals(here).coolingDown).toBe(false)
  })

  test('that asks for a day cools the candidate down for an hour', () => {
    const here = world([ALPHA])
    here.call(ALPHA).end('throttled', null, 86_400_000)
    here.after(3_599_999)
    expect(here.book.begin(ALPHA)).toBe('cooling_down')
    here.after(1)
    expect(typeof here.book.begin(ALPHA)).toBe('object')
  })
})

describe('concurrency of a provider', () => {
  test('is never exceeded, not even when there is nobody else, and comes back once', () => {
    const narrow = entry({ provider: 'alpha', maxConcurrency: 2 })
    const other = entry({ provider: 'alpha', name: 'large', maxConcurrency: 2 })
    const here = world([narrow, other])
    const first = here.call(narrow)
    here.call(other)
    expect(here.book.begin(narrow, undefined, true)).toBe('full')
    first.end('success')
    first.end('failure')
    here.call(narrow)
    expect(here.book.begin(other)).toBe('full')
  })
})

// docs/behaviour.md: "Health"
describe('ejection', () => {
  const mixed = (here: ReturnType<typeof world>, row = ALPHA, good = 14, bad = 6) => {
    for (let i = 0; i < good; i++) here.succeed(row)
    // In pairs, so that its breaker stays closed.
    for (let i = 0; i < bad; i++) {
      here.fail(row)
      here.succeed(row)
    }
  }

  test('takes out the row that fails far more than its peers, and lets it back later', () => {
    const here = world([ALPHA, BETA])
    mixed(here)
    here.succeed(BETA, 30)
    here.after(1_000)
    expect(signals(here)).toMatchObject({ ejected: true, breaker: 'closed' })
    expect(signals(here, BETA).ejected).toBe(false)
    here.after(30_000)
    expect(signals(here).ejected).toBe(false)
  })

  test('compares: when all fail alike, nobody is taken out', () => {
    const here = world([ALPHA, BETA])
    mixed(here)
    mixed(here, BETA)
    here.after(1_000)
    expect([signals(here).ejected, signals(here, BETA).ejected]).toEqual([false, false])
  })

  test('is not heeded while more than half of the rows are out (the panic threshold)', () => {
    const here = world([ALPHA, BETA, GAMMA])
    mixed(here)
    here.succeed(BETA, 30)
    here.succeed(GAMMA, 30)
    here.after(1_000)
    expect(signals(here).ejected).toBe(true)
    here.fail(BETA, 5)
    expect(signals(here).ejected).toBe(false)
  })
})

describe('the retry budget', () => {
  test('bounds repeats to a fifth of the calls of the last 10 s, or 10', () => {
    const here = world([ALPHA])
    const allowed = (tries: number) =>
      Array.from({ length: tries }, () => here.book.mayRepeat(ALPHA)).filter(Boolean).length
    expect(allowed(50)).toBe(10)
    here.succeed(ALPHA, 100)
    expect(allowed(50)).toBe(10)
    here.after(11_000)
    expect(allowed(50)).toBe(10)
  })

  test('has nothing for a candidate whose breaker is open', () => {
    const here = world([ALPHA])
    here.fail(ALPHA, 5)
    expect(here.book.mayRepeat(ALPHA)).toBe(false)
  })
})

describe('frames', () => {
  test('stay the same object for a second, and for ever when nothing changes', () => {
    const here = world([ALPHA])
    here.succeed(ALPHA)
    const first = here.book.current()
    expect(first.number).toBe(1)
    here.fail(ALPHA)
    expect(here.book.current()).toBe(first)
    here.after(1_000)
    const second = here.book.current()
    expect(second.number).toBe(2)
    expect(second.signals(ALPHA.modelId).health).toBe(0.67)
    here.after(1_000)
    expect(here.book.current()).toBe(second)
    expect(here.events.filter(({ type }) => type === 'frame.taken')).toHaveLength(2)
  })

  test('know nothing of what was never called', () => {
    const here = world([ALPHA])
    expect(here.book.current()).toMatchObject({ number: 0 })
    expect(here.events).toEqual([])
  })

  test('hold speed, load and headroom', () => {
    const here = world([ALPHA])
    const call = here.call(ALPHA)
    call.headers({
      headers: new Headers({ 'x-ratelimit-remaining-requests': '25', 'x-ratelimit-limit-requests': '100' }),
    })
    here.after(200)
    call.answered()
    here.after(1_000)
    call.end('success', 50)
    here.call(ALPHA)
    here.after(1_000)
    expect(signals(here)).toMatchObject({
      ttftMs: 200,
      e2eMs: 1_200,
      tokensPerSecond: 50,
      inFlight: 1,
      headroom: 0.25,
    })
  })

  test('are events of their schema below 64 KiB, whatever number of candidates', () => {
    const rows = Array.from({ length: 1_500 }, (_, i) =>
      entry({ modelId: `mod_${'x'.repeat(36)}${i}`, provider: `p${i}` }),
    )
    const here = world(rows)
    for (const row of rows) here.succeed(row)
    here.book.current()
    const taken = here.events.filter(({ type }) => type === 'frame.taken')
    expect(taken).toHaveLength(4)
    for (const { type, data } of taken) {
      expect([...Value.Errors(HEALTH_EVENTS[type], data)]).toEqual([])
      expect(JSON.stringify(data).length).toBeLessThan(60_000)
    }
  })
})
