// How many connections to one place may be on their way at once. The kernel goes on opening one that was given up, for two minutes when nobody answers, and holds a
// descriptor for it: an address that swallows everything must not take them all.
import { DialFailure, type DialLimits } from './dial.ts'

/** Being opened to one place at once, those that were given up included. */
export const MOST_OPENING = 256
/** However many were given up: one is tried so often, or nobody would notice that somebody answers again. */
export const TRY_EVERY_MS = 1_000

/** One connection on its way. */
export interface Opening {
  /** Nobody waits for it any more; the kernel still does. */
  givenUp(): void
  /** It is open, or refused, or gone. */
  over(): void
}

interface Place {
  tried: number
  givenUp: number
  begunMs: number
  /** The last one that came to an end was open, or refused. */
  answers: boolean
  /** First come, first served. */
  readonly waiting: Set<() => void>
}

/** Of one client, by the key of its destinations. */
export class Openings {
  readonly #places = new Map<string, Place>()

  /** Monotonic. */
  constructor(private readonly nowMs: () => number) {}

  /** On their way, all places together. */
  get size(): number {
    let sum = 0
    for (const { tried, givenUp } of this.#places.values()) sum += tried + givenUp
    return sum
  }

  /** Now, or when one of the others is over; fails when the limit of connecting passes before. */
  enter(key: string, limits: DialLimits): Opening | Promise<Opening> {
    const known = this.#places.get(key)
    const place = known ?? { tried: 0, givenUp: 0, begunMs: 0, answers: true, waiting: new Set() }
    if (known === undefined) this.#places.set(key, place)
    if (this.#hasRoom(place)) return this.#begin(key, place)
    if (limits.signal.aborted) return Promise.reject(new DialFailure('canceled', 'the request was canceled'))
    return new Promise((resolve, reject) => {
      const finish = () => {
        place.waiting.delete(go)
        clearTimeout(timer)
        limits.signal.removeEventListener('abort', onAbort)
      }
      const go = () => {
        finish()
        resolve(this.#begin(key, place))
      }
      const fail = (kind: 'canceled' | 'timeout_connect', message: string) => {
        finish()
        this.#tidy(key, place)
        reject(new DialFailure(kind, message))
      }
      const onAbort = () => fail('canceled', 'the request was canceled')
      const timer = setTimeout(
        () => fail('timeout_connect', `too many connections are being opened there for ${limits.connectMs} ms`),
        limits.connectMs,
      )
      limits.signal.addEventListener('abort', onAbort)
      place.waiting.add(go)
    })
  }

  #begin(key: string, place: Place): Opening {
    place.tried++
    place.begunMs = this.nowMs()
    let [isTried, isOver] = [true, false]
    const leave = () => {
      if (isTried) place.tried--
      isTried = false
    }
    return {
      givenUp: () => {
        if (isOver || !isTried) return
        leave()
        place.givenUp++
        place.answers = false
        this.#tidy(key, place)
      },
      over: () => {
        if (isOver) return
        isOver = true
        if (isTried) place.answers = true
        else place.givenUp--
        leave()
        this.#tidy(key, place)
      },
    }
  }

  #tidy(key: string, place: Place): void {
    for (const go of place.waiting) {
      if (!this.#hasRoom(place)) return
      go()
    }
    if (place.tried + place.givenUp + place.waiting.size === 0) this.#places.delete(key)
  }

  #hasRoom({ tried, givenUp, begunMs, answers }: Place): boolean {
    if (tried >= MOST_OPENING) return false
    return answers || tried + givenUp < MOST_OPENING || (tried === 0 && this.nowMs() - begunMs >= TRY_EVERY_MS)
  }
}
