// Limits how many connections to one destination are being opened at once. After the client gives an attempt up, the
// kernel continues it for two minutes when the destination does not reply, and holds a descriptor for it. Without a
// limit, an address that drops all packets would take all descriptors.
import { DialFailure, type DialLimits } from './dial.ts'

/** Connection attempts to one destination at once, abandoned ones included. */
export const MOST_OPENING = 256
/** One attempt is made at this interval even when the limit is reached, so that a recovered destination is detected. */
export const TRY_EVERY_MS = 1_000

/** One connection attempt. */
export interface Opening {
  /** The client waits no longer; the kernel continues the attempt. */
  givenUp(): void
  /** The attempt has ended: connected, refused or closed. */
  over(): void
}

interface Place {
  tried: number
  givenUp: number
  begunMs: number
  /** The last attempt that ended was connected or refused. */
  answers: boolean
  /** First in, first out. */
  readonly waiting: Set<() => void>
}

/** The attempts of one client, by destination key. */
export class Openings {
  readonly #places = new Map<string, Place>()

  /** `nowMs`: monotonic milliseconds. */
  constructor(private readonly nowMs: () => number) {}

  /** Attempts in progress, of all destinations. */
  get size(): number {
    let sum = 0
    for (const { tried, givenUp } of this.#places.values()) sum += tried + givenUp
    return sum
  }

  /** Starts an attempt now, or when another one ends. Rejects with `timeout_connect` after `limits.connectMs`. */
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
