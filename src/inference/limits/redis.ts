// Rate limits counted in Redis, for all instances together. One script a call; all keys share one hash tag, since a
// script may use one slot of a cluster only.

import { expiresInMs } from '../../lib/collections/sliding-window.ts'
import { isRefusal, type Redis } from '../../lib/redis.ts'
import { type Counted, LEASE_MS, type LimitName, type LimitRequest, type LimitStore, type Verdict } from './port.ts'
import { RENEW_SCRIPT, SETTLE_SCRIPT, TAKE_SCRIPT } from './script.ts'

interface Script {
  readonly text: string
  readonly digest: string
}
const scriptOf = (text: string): Script => ({ text, digest: new Bun.CryptoHasher('sha1').update(text).digest('hex') })
const TAKE = scriptOf(TAKE_SCRIPT)
const SETTLE = scriptOf(SETTLE_SCRIPT)
const RENEW = scriptOf(RENEW_SCRIPT)

/** Scripts that a connection loads before they are called by their digests. */
export const LIMIT_SCRIPTS = [TAKE, SETTLE, RENEW].map(({ text }) => ['SCRIPT', 'LOAD', text] as const)

type Send = (command: string, args: string[]) => Promise<unknown>

const PREFIX = '{gatelog:limits}'
const LIMITS: readonly LimitName[] = ['rpm', 'tpm', 'max_parallel']

/** The counts in Redis. Every method rejects with RedisUnavailable, or with the error of Redis. */
export class RedisLimitStore implements LimitStore {
  /** `nowMs`: for tests; without it Redis' own clock counts. `leaseMs`: of a slot. */
  constructor(
    private readonly redis: Pick<Redis, 'call' | 'callWithoutDeadline'>,
    private readonly nowMs: (() => number) | null = null,
    private readonly leaseMs = LEASE_MS,
  ) {}

  /** `late`: called with the verdict of Redis when it comes after the time limit. */
  async take(request: LimitRequest, late?: (verdict: Verdict) => void): Promise<Verdict> {
    const { id, rules, tokens } = request
    const args = [this.#time(), id, String(tokens), String(this.leaseMs)]
    for (const { rpm, tpm, maxParallel } of rules) args.push(textOf(rpm), textOf(tpm), textOf(maxParallel))
    const onLate = late && ((value: unknown) => isAnswer(value, request) && late(verdictOf(request, value)))
    const answer = await this.#run(TAKE, keysOf(request), args, (command, rest) =>
      this.redis.call(command, rest, onLate),
    )
    if (!isAnswer(answer, request)) throw new Error('Redis answered something else than counts')
    return verdictOf(request, answer)
  }

  async settle(request: LimitRequest, buckets: readonly number[] | null, tokensUsed: number): Promise<void> {
    const args = [this.#time(), request.id, String(tokensUsed - request.tokens)]
    for (const [i, { tpm }] of request.rules.entries()) {
      args.push(buckets === null || tpm === null ? '-1' : String(buckets[i]))
    }
    await this.#run(SETTLE, keysOf(request), args, this.#sendWithoutDeadline)
  }

  /** Renews the slots of requests under way; takes them again when Redis has lost them. */
  async renew(requests: readonly LimitRequest[]): Promise<void> {
    const keys: string[] = []
    const args = [this.#time(), String(this.leaseMs)]
    for (const { id, rules } of requests) {
      for (const { subject, maxParallel } of rules) {
        if (maxParallel === null) continue
        keys.push(slotsKey(subject))
        args.push(id)
      }
    }
    if (keys.length > 0) await this.#run(RENEW, keys, args, this.#sendWithoutDeadline)
  }

  #time(): string {
    return this.nowMs === null ? '' : String(this.nowMs())
  }

  readonly #sendWithoutDeadline: Send = (command, args) => this.redis.callWithoutDeadline(command, args)

  async #run(script: Script, keys: string[], args: string[], send: Send): Promise<unknown> {
    const rest = [String(keys.length), ...keys, ...args]
    try {
      return await send('EVALSHA', [script.digest, ...rest])
    } catch (error) {
      // The scripts were flushed: this call sends the text, which loads it again.
      if (!isRefusal(error) || !error.message.startsWith('NOSCRIPT')) throw error
      return send('EVAL', [script.text, ...rest])
    }
  }
}

const textOf = (limit: number | null): string => (limit === null ? '0' : String(limit))
const slotsKey = (subject: string): string => `${PREFIX}:${subject}:slots`
const keysOf = ({ rules }: LimitRequest): string[] =>
  rules.flatMap(({ subject }) => [`${PREFIX}:${subject}:counts`, slotsKey(subject)])

const HEAD = 4
const EACH = 4

const isAnswer = (answer: unknown, { rules }: LimitRequest): answer is number[] =>
  Array.isArray(answer) &&
  answer.length === HEAD + rules.length * EACH &&
  answer.every((each) => typeof each === 'number')

const verdictOf = ({ rules }: LimitRequest, answer: readonly number[]): Verdict => {
  const [refused, limit, wait, nowMs] = answer as [number, number, number, number]
  const buckets: number[] = []
  const counted: Counted[] = rules.map(({ rpm, tpm }, i) => {
    const at = HEAD + i * EACH
    const [bucket, requests, tokens, newest] = answer.slice(at, at + EACH) as [number, number, number, number]
    buckets.push(bucket)
    const shown = { requests: rpm === null ? 0 : requests, tokens: tpm === null ? 0 : tokens }
    return { ...shown, resetMs: shown.requests + shown.tokens === 0 ? 0 : expiresInMs(newest, nowMs) }
  })
  if (refused === 0) return { admitted: true, buckets, counted }
  const retryAfterMs = wait < 0 ? null : wait
  return { admitted: false, rule: refused - 1, limit: LIMITS[limit - 1]!, retryAfterMs, counted }
}
