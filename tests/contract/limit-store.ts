// What every place that counts rate limits promises, with a clock that the test sets.
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { LimitRequest, LimitStore, Verdict } from '../../src/inference/limits/port.ts'
import type { LimitRule } from '../../src/state/indexes/limit-rules.ts'

export interface OpenStore {
  /** The store, with a clock that is read at every call. */
  open(nowMs: () => number): LimitStore
  /** How many random histories are tried. */
  readonly runs: number
}

const START_MS = 1_795_000_000_000
let subjects = 0

/** A rule about a subject of its own. */
const ruleOf = (limits: Partial<Pick<LimitRule, 'rpm' | 'tpm' | 'maxParallel'>>): LimitRule => ({
  scope: 'key',
  subject: `key:${process.pid}.${Math.random()}.${subjects++}`,
  rpm: null,
  tpm: null,
  maxParallel: null,
  ...limits,
})

type Admitted = Verdict & { admitted: true }

export const limitStoreContract = (name: string, { open, runs }: OpenStore): void => {
  const opened = () => {
    const clock = { nowMs: START_MS }
    const store = open(() => clock.nowMs)
    let asks = 0
    const ask = (rules: readonly LimitRule[], tokens = 0): LimitRequest => ({ id: `req_${asks++}`, rules, tokens })
    const taken = async (wanted: LimitRequest): Promise<Admitted> => {
      const verdict = await store.take(wanted)
      if (!verdict.admitted) throw new Error(`refused: ${JSON.stringify(verdict)}`)
      return verdict
    }
    return { clock, store, ask, taken }
  }

  describe(`rate limits: ${name}`, () => {
    test('requests are admitted up to the limit, and again once the minute has passed', async () => {
      const { clock, store, ask, taken } = opened()
      const rules = [ruleOf({ rpm: 2 })]
      expect((await taken(ask(rules))).counted[0]).toMatchObject({ requests: 1, resetMs: 61_000 })
      clock.nowMs += 10_500
      expect((await taken(ask(rules))).counted[0]).toMatchObject({ requests: 2, resetMs: 60_500 })
      expect(await store.take(ask(rules))).toMatchObject({
        admitted: false,
        rule: 0,
        limit: 'rpm',
        retryAfterMs: 50_500,
        counted: [{ requests: 2 }],
      })
      clock.nowMs += 50_499
      expect(await store.take(ask(rules))).toMatchObject({ admitted: false, retryAfterMs: 1 })
      clock.nowMs += 1
      expect((await taken(ask(rules))).counted[0]).toMatchObject({ requests: 2 })
    })

    test('all limits are taken or none', async () => {
      const { store, ask, taken } = opened()
      const [wide, narrow] = [ruleOf({ rpm: 10, tpm: 1_000, maxParallel: 5 }), ruleOf({ rpm: 1 })]
      await taken(ask([wide, narrow], 100))
      for (let i = 0; i < 20; i++) {
        expect(await store.take(ask([wide, narrow], 100))).toMatchObject({ admitted: false, rule: 1, limit: 'rpm' })
      }
      expect((await taken(ask([wide], 0))).counted[0]).toMatchObject({ requests: 2, tokens: 100 })
    })

    test('what was reserved too much is given back, what was used beyond it is taken', async () => {
      const { clock, store, ask, taken } = opened()
      const rules = [ruleOf({ tpm: 1_000 })]
      const first = ask(rules, 800)
      const { buckets } = await taken(first)
      expect(await store.take(ask(rules, 300))).toMatchObject({
        admitted: false,
        limit: 'tpm',
        counted: [{ tokens: 800 }],
      })
      clock.nowMs += 5_000
      await store.settle(first, buckets, 100)
      const second = ask(rules, 300)
      const taking = await taken(second)
      expect(taking.counted[0]).toMatchObject({ tokens: 400 })
      await store.settle(second, taking.buckets, 5_000)
      expect(await store.take(ask(rules, 1))).toMatchObject({
        admitted: false,
        limit: 'tpm',
        counted: [{ tokens: 5_100 }],
      })
      clock.nowMs += 61_000
      expect((await taken(ask(rules, 1_000))).counted[0]).toMatchObject({ tokens: 1_000 })
    })

    test('a settlement after the window has passed changes nothing that counts', async () => {
      const { clock, store, ask, taken } = opened()
      const rules = [ruleOf({ tpm: 1_000 })]
      const long = ask(rules, 900)
      const { buckets } = await taken(long)
      clock.nowMs += 61_000
      await taken(ask(rules, 900))
      await store.settle(long, buckets, 0)
      expect(await store.take(ask(rules, 200))).toMatchObject({ admitted: false, counted: [{ tokens: 900 }] })
    })

    test('a request for more than the limit is refused as one that never fits', async () => {
      const { store, ask } = opened()
      const rules = [ruleOf({ rpm: 1 }), ruleOf({ tpm: 10 })]
      expect(await store.take(ask(rules, 11))).toMatchObject({ rule: 1, limit: 'tpm', retryAfterMs: null })
    })

    test('a slot is free again when its request is settled', async () => {
      const { store, ask, taken } = opened()
      const rules = [ruleOf({ maxParallel: 2 })]
      const first = ask(rules)
      const { buckets } = await taken(first)
      await taken(ask(rules))
      expect(await store.take(ask(rules))).toMatchObject({
        admitted: false,
        limit: 'max_parallel',
        retryAfterMs: 1_000,
      })
      await store.settle(first, buckets, 0)
      await taken(ask(rules))
      expect(await store.take(ask(rules))).toMatchObject({ admitted: false, limit: 'max_parallel' })
    })

    test('of several refusals the longest wait is reported', async () => {
      const { clock, store, ask, taken } = opened()
      const [minute, slots] = [ruleOf({ rpm: 1 }), ruleOf({ maxParallel: 1 })]
      await taken(ask([slots, minute]))
      clock.nowMs += 20_000
      expect(await store.take(ask([slots, minute]))).toMatchObject({ rule: 1, limit: 'rpm', retryAfterMs: 41_000 })
    })

    test('a clock that goes back lets nothing in', async () => {
      const { clock, store, ask, taken } = opened()
      const rules = [ruleOf({ rpm: 1 })]
      await taken(ask(rules))
      clock.nowMs -= 120_000
      expect(await store.take(ask(rules))).toMatchObject({ admitted: false, limit: 'rpm' })
    })

    test('large numbers stay exact', async () => {
      const { store, ask, taken } = opened()
      const rules = [ruleOf({ tpm: 1_000_000_000_000 })]
      const large = ask(rules, 999_999_999_998)
      const { buckets } = await taken(large)
      expect((await taken(ask(rules, 1))).counted[0]!.tokens).toBe(999_999_999_999)
      await store.settle(large, buckets, 999_999_999_997)
      expect((await taken(ask(rules, 2))).counted[0]!.tokens).toBe(1_000_000_000_000)
      expect(await store.take(ask(rules, 1))).toMatchObject({ admitted: false })
    })

    test('any history agrees with a list of what was taken', async () => {
      await fc.assert(
        fc.asyncProperty(anyLimits, anyHistory, async (limits, history) => {
          const { clock, store, ask } = opened()
          await agree(limits.map(ruleOf), history, clock, store, ask)
        }),
        { numRuns: runs },
      )
    })
  })
}

const optional = (max: number) => fc.option(fc.integer({ min: 1, max }), { nil: null })
const anyLimits = fc.array(fc.record({ rpm: optional(6), tpm: optional(60), maxParallel: optional(4) }), {
  minLength: 1,
  maxLength: 3,
})
type Step = { waitMs: number } | { tokens: number } | { settle: number; tokensUsed: number }
const anyStep: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ waitMs: fc.oneof(fc.integer({ min: 0, max: 3_000 }), fc.integer({ min: 0, max: 70_000 })) }),
  { weight: 3, arbitrary: fc.record({ tokens: fc.integer({ min: 0, max: 30 }) }) },
  { weight: 2, arbitrary: fc.record({ settle: fc.nat(), tokensUsed: fc.integer({ min: 0, max: 50 }) }) },
)
const anyHistory = fc.array(anyStep, { maxLength: 60 })

interface Entry {
  readonly atMs: number
  readonly requests: number
  tokens: number
}

/** The model: every use with its time. A use younger than 60 s counts; one older than 61 s does not. */
const agree = async (
  rules: readonly LimitRule[],
  history: readonly Step[],
  clock: { nowMs: number },
  store: LimitStore,
  newAsk: (rules: readonly LimitRule[], tokens: number) => LimitRequest,
): Promise<void> => {
  const entries: Entry[] = []
  const open: { readonly ask: LimitRequest; readonly buckets: readonly number[]; readonly entry: Entry }[] = []
  const sum = (what: 'requests' | 'tokens', youngerMs: number) =>
    entries.reduce((total, entry) => (clock.nowMs - entry.atMs < youngerMs ? total + entry[what] : total), 0)
  for (const step of history) {
    if ('waitMs' in step) clock.nowMs += step.waitMs
    else if ('settle' in step) {
      const [held] = open.splice(step.settle % Math.max(1, open.length), 1)
      if (held === undefined) continue
      await store.settle(held.ask, held.buckets, step.tokensUsed)
      const beyond = step.tokensUsed - held.ask.tokens
      if (beyond > 0) entries.push({ atMs: clock.nowMs, requests: 0, tokens: beyond })
      else held.entry.tokens += beyond
    } else {
      const ask = newAsk(rules, step.tokens)
      const exceeds = (youngerMs: number) =>
        rules.some(
          ({ rpm, tpm, maxParallel }) =>
            (rpm !== null && sum('requests', youngerMs) + 1 > rpm) ||
            (tpm !== null && sum('tokens', youngerMs) + step.tokens > tpm) ||
            (maxParallel !== null && open.length + 1 > maxParallel),
        )
      const verdict = await store.take(ask)
      if (verdict.admitted) {
        expect(exceeds(60_000)).toBe(false) // never more than the limit in any 60 s
        const entry = { atMs: clock.nowMs, requests: 1, tokens: step.tokens }
        entries.push(entry)
        open.push({ ask, buckets: verdict.buckets, entry })
      } else {
        expect(exceeds(61_000)).toBe(true) // and no request is refused for uses older than 61 s
        await rightWait(verdict, ask, clock, store, exceeds)
      }
    }
  }
}

/** The request is refused until the time that the refusal names. */
const rightWait = async (
  verdict: Verdict & { admitted: false },
  ask: LimitRequest,
  clock: { nowMs: number },
  store: LimitStore,
  exceeds: (youngerMs: number) => boolean,
): Promise<void> => {
  if (verdict.retryAfterMs === null || verdict.limit === 'max_parallel') return
  const nowMs = clock.nowMs
  clock.nowMs = nowMs + verdict.retryAfterMs
  const slots = ask.rules.some(({ maxParallel }) => maxParallel !== null)
  if (!slots) expect(exceeds(60_000)).toBe(false)
  clock.nowMs = nowMs + verdict.retryAfterMs - 1
  expect((await store.take(ask)).admitted).toBe(false)
}
