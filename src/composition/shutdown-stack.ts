// What was started, to be ended in the reverse order.
import { sleep } from '../lib/event-loop/sleep.ts'
import type { Diagnostics } from '../lib/process/diagnostics.ts'

/** The time for which a stop still takes requests, so that load balancers notice it. */
export class Grace {
  readonly #skipped = new AbortController()
  #isOver: boolean

  constructor(readonly ms: number) {
    this.#isOver = ms === 0
  }

  /** Resolves after that time, or once it is skipped. */
  async pass(): Promise<void> {
    await sleep(this.ms, this.#skipped.signal)
    this.#isOver = true
  }

  /** Ends it, also before it has begun; false when it is over already. */
  skip(): boolean {
    if (this.#isOver) return false
    this.#isOver = true
    this.#skipped.abort()
    return true
  }
}

/** How long a step without a time of its own may take. */
const STEP_MS = 15_000

export class Stack {
  readonly #steps: { readonly name: string; readonly stop: () => void | Promise<void>; readonly limitMs: number }[] = []
  #stopping: Promise<void> | null = null

  constructor(readonly diagnostics: Diagnostics) {}

  push(name: string, stop: () => void | Promise<void>, limitMs = STEP_MS): void {
    this.#steps.push({ name, stop, limitMs })
  }

  /** Ends everything once, the last first. A step that fails or takes too long is reported and passed over. */
  stop(): Promise<void> {
    this.#stopping ??= this.#run()
    return this.#stopping
  }

  async #run(): Promise<void> {
    for (const { name, stop, limitMs } of this.#steps.reverse()) {
      let timer: Timer | undefined
      const late = new Promise<never>((_, reject) => {
        timer = setTimeout(() => reject(new Error(`not ended within ${limitMs / 1_000} s`)), limitMs)
      })
      try {
        await Promise.race([stop(), late])
      } catch (error) {
        this.diagnostics.error('stop_failed', { step: name, error })
      } finally {
        clearTimeout(timer)
      }
    }
  }
}
