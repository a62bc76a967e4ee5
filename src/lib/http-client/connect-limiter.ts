// Limits how many connections to one destination are being opened at once. After the client gives an attempt up, the
// kernel continues it for two minutes when the destination does not reply, and holds a descriptor for it. Without a
// limit, an address that drops all packets would take all descriptors.
import { DialFailure, type DialLimits } from './dial.ts'

/** Connection attempts to one destination at once, abandoned ones included. */
export const MAX_CONNECTING = 256
/** One attempt is made at this interval even when the limit is reached, so that a recovered destination is detected. */
export const RETRY_EVERY_MS = 1_000

/** One connection attempt. */
export interface ConnectAttempt {
  /** The client waits no longer; the kernel continues the attempt. */
  abandon(): void
  /** The attempt has ended: connected, refused or closed. */
  end(): void
}

interface Place {
  tried: number
  abandoned: number
  begunMs: number
  /** The last attempt that ended was connected or refused. */
  responds: boolean
  /** First in, first out. */
  readonly waiting: Set<() => void>
}

/** The attempts of one client, by destination key. */
export class ConnectLimiter {
  readonly #places = new Map<string, Place>()

  /** `nowMs`: monotonic milliseconds. */
  constructor(private readonly nowMs: () => number) {}

  /** Attempts in progress, of all destinations. */
  get size(): number {
    let sum = 0
    for (const { tried, abandoned } of this.#places.values()) sum += tried + abandoned
    return sum
  }

  /** Starts an attempt now, or when another one ends. Rejects with `timeout_connect` after `limits.connectMs`. */
  enter(key: string, limits: DialLimits): ConnectAttempt | Promise<ConnectAttempt> {
    const known = this.#places.get(key)
    const place = known ?? { tried: 0, abandoned: 0, begunMs: 0, responds: true, waiting: new Set() }
    if (known === undefined) this.#places.set(key, place)
    if (this.#hasRoom(place)) return this.#begin(key, place)
    if (limits.signal.aborted) return Promise.reject(new DialFailure('canceled', 'the request was canceled'))
    return new Promise((resolve, reject) => {
      const finish = () => {
        place.waiting.delete(start)
        clearTimeout(timer)
        limits.signal.removeEventListener('abort', onAbort)
      }
      const start = () => {
        finish()
        resolve(this.#begin(key, place))
      }
      const fail = (kind: 'canceled' | 'timeout_connect', message: string) => {
        finish()
        this.#admitWaiting(key, place)
        reject(new DialFailure(kind, message))
      }
      const onAbort = () => fail('canceled', 'the request was canceled')
      const timer = setTimeout(
        () => fail('timeout_connect', `too many connections are being opened there for ${limits.connectMs} ms`),
        limits.connectMs,
      )
      limits.signal.addEventListener('abort', onAbort)
      place.waiting.add(start)
    })
  }

  #begin(key: string, place: Place): ConnectAttempt {
    place.tried++
    place.begunMs = this.nowMs()
    let [isTried, isOver] = [true, false]
    const leave = () => {
      if (isTried) place.tried--
      isTried = false
    }
    return {
      abandon: () => {
        if (isOver || !isTried) return
        leave()
        place.abandoned++
        place.responds = false
        this.#admitWaiting(key, place)
      },
      end: () => {
        if (isOver) return
        isOver = true
        if (isTried) place.responds = true
        else place.abandoned--
        leave()
        this.#admitWaiting(key, place)
      },
    }
  }

  #admitWaiting(key: string, place: Place): void {
    for (const go of place.waiting) {
      if (!this.#hasRoom(place)) return
      go()
    }
    if (place.tried + place.abandoned + place.waiting.size === 0) this.#places.delete(key)
  }

  #hasRoom({ tried, abandoned, begunMs, responds }: Place): boolean {
    if (tried >= MAX_CONNECTING) return false
    return responds || tried + abandoned < MAX_CONNECTING || (tried === 0 && this.nowMs() - begunMs >= RETRY_EVERY_MS)
  }
}
