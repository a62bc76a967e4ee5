// Identical requests at the same time: the first one calls the provider, the others wait for its entry.

/**
 * What a request does next. `lead`: it calls the provider, and has to end its flight. `look`: the entry is stored.
 * `alone`: it calls the provider without others waiting for it.
 */
export type FlightTurn = 'lead' | 'look' | 'alone'

/** How a leader ends. `failed`: the next one leads. `unstorable`: its answer has no entry, so no request waits on. */
export type FlightEnd = 'stored' | 'unstorable' | 'failed'

/** A request's place among identical ones. */
export interface Flight {
  /** A promise only while it waits. */
  readonly turn: FlightTurn | Promise<FlightTurn>
  /** Ends a leader's flight; does nothing in any other turn, and a second time. */
  end(how: FlightEnd): void
  /** The request is over before its turn came, or without an end of its flight. */
  leave(): void
}

interface Waiter {
  readonly go: (turn: FlightTurn) => void
  readonly timer: ReturnType<typeof setTimeout>
}

/** Beyond so many waiting requests the next ones go alone. */
const MOST_WAITING = 10_000

export class SingleFlight {
  /** The waiting requests behind each leader, in order. */
  readonly #flights = new Map<string, Set<Waiter>>()
  #waiting = 0

  constructor(private readonly mostWaiting = MOST_WAITING) {}

  /** Leaders under way. */
  get leaders(): number {
    return this.#flights.size
  }

  get waiting(): number {
    return this.#waiting
  }

  /** `waitMs`: how long it waits for the others at most; after that it goes alone. */
  enter(key: string, waitMs: number): Flight {
    const waiters = this.#flights.get(key)
    if (waiters === undefined) {
      this.#flights.set(key, new Set())
      return this.#leading(key, 'lead')
    }
    if (waitMs <= 0 || this.#waiting >= this.mostWaiting) return ALONE
    const { promise, resolve } = Promise.withResolvers<FlightTurn>()
    let turn: FlightTurn | null = null
    const go = (next: FlightTurn): void => {
      turn = next
      waiters.delete(waiter)
      clearTimeout(waiter.timer)
      this.#waiting -= 1
      resolve(next)
    }
    const waiter: Waiter = { go, timer: setTimeout(() => go('alone'), waitMs) }
    waiters.add(waiter)
    this.#waiting += 1
    const led = this.#leading(key, promise)
    return {
      turn: promise,
      end: (how) => {
        if (turn === 'lead') led.end(how)
      },
      leave: () => {
        if (turn === null) go('alone')
        else if (turn === 'lead') led.leave()
      },
    }
  }

  #leading(key: string, turn: Flight['turn']): Flight {
    let isOver = false
    const end = (how: FlightEnd): void => {
      if (isOver) return
      isOver = true
      this.#end(key, how)
    }
    return { turn, end, leave: () => end('failed') }
  }

  #end(key: string, how: FlightEnd): void {
    const waiters = this.#flights.get(key)!
    if (how === 'failed') {
      const [next] = waiters
      if (next === undefined) this.#flights.delete(key)
      else next.go('lead')
      return
    }
    this.#flights.delete(key)
    for (const { go } of [...waiters]) go(how === 'stored' ? 'look' : 'alone')
  }
}

const nothing = (): void => {
  // No other request depends on it.
}
const ALONE: Flight = { turn: 'alone', end: nothing, leave: nothing }
