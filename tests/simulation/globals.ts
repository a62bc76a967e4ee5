// Replaces the clock, the timers and the randomness of this process by those of a run: the seed determines everything
// that the production code reads from them. No call bypasses it, and production has no cost from it. Only for a process
// that does nothing else (`run.ts`).
import type { Random } from './scenario/random.ts'
import type { Scheduled, Scheduler } from './scheduler.ts'

/**
 * Unix milliseconds at which every run begins: half a minute before an hour ends, and with it the windows of budgets.
 */
export const EPOCH_MS = Date.UTC(2026, 10, 20, 11, 59, 30)

class Timer {
  constructor(public scheduled: Scheduled | null) {}
  ref(): this {
    return this
  }
  unref(): this {
    return this
  }
  hasRef(): boolean {
    return false
  }
}

type Callback = (...values: unknown[]) => void

interface Replaced {
  readonly holder: object
  readonly name: string
  readonly value: unknown
}

const set = (holder: object, name: string, value: unknown): void => {
  if (Reflect.set(holder, name, value) && Reflect.get(holder, name) === value) return
  if (!Reflect.defineProperty(holder, name, { value, configurable: true, enumerable: true, writable: true }))
    throw new Error(`${name} cannot be replaced`)
}

/** Returns how to put the real ones back. */
export const replaceGlobals = (scheduler: Scheduler, random: Random): (() => void) => {
  const setTimer = (run: Callback, delayMs = 0, ...values: unknown[]): Timer =>
    new Timer(scheduler.after(delayMs, scheduler.current, () => run(...values)))
  const repeat = (run: Callback, everyMs = 0, ...values: unknown[]): Timer => {
    const owner = scheduler.current
    const timer = new Timer(null)
    const again = () => {
      timer.scheduled = scheduler.after(Math.max(1, everyMs), owner, () => {
        again()
        run(...values)
      })
    }
    again()
    return timer
  }
  const clear = (timer: Timer | null | undefined): void => {
    if (timer?.scheduled != null) timer.scheduled.canceled = true
  }
  const sleep = (delayMs: number) => new Promise<void>((resolve) => setTimer(() => resolve(), delayMs))
  const aborted = (delayMs: number): AbortSignal => {
    const stop = new AbortController()
    setTimer(() => stop.abort(new DOMException('The operation timed out.', 'TimeoutError')), delayMs)
    return stop.signal
  }
  const uuid = () => `${random.hex(8)}-${random.hex(4)}-4${random.hex(3)}-8${random.hex(3)}-${random.hex(12)}`
  const real: Replaced[] = []
  const put = (holder: object, name: string, value: unknown) => {
    real.push({ holder, name, value: Reflect.get(holder, name) })
    set(holder, name, value)
  }
  put(globalThis, 'setTimeout', setTimer)
  put(globalThis, 'setInterval', repeat)
  put(globalThis, 'setImmediate', (run: Callback, ...values: unknown[]) => setTimer(run, 0, ...values))
  for (const name of ['clearTimeout', 'clearInterval', 'clearImmediate']) put(globalThis, name, clear)
  put(performance, 'now', () => scheduler.nowMs)
  put(Date, 'now', () => EPOCH_MS + Math.floor(scheduler.nowMs) + (scheduler.current.machine?.skewMs ?? 0))
  put(Math, 'random', () => random.next())
  put(Bun, 'sleep', sleep)
  put(Bun, 'randomUUIDv7', uuid)
  put(crypto, 'randomUUID', uuid)
  put(AbortSignal, 'timeout', aborted)
  // Stands in the names of files.
  put(process, 'pid', 1)
  return () => {
    for (const { holder, name, value } of real.reverse()) set(holder, name, value)
  }
}
