// Waiting for something that the fold will bring about.

/** Told whenever something moved; whoever waits looks again. */
export class Changed {
  readonly #waiting = new Set<() => void>()

  tell(): void {
    for (const look of [...this.#waiting]) look()
  }

  /** Resolves true once `holds()` (which must not throw), looked at now and whenever something moved; false after the time given. */
  until(holds: () => boolean, timeoutMs: number): Promise<boolean> {
    if (holds()) return Promise.resolve(true)
    if (timeoutMs <= 0) return Promise.resolve(false)
    return new Promise((resolve) => {
      const end = (answer: boolean) => {
        clearTimeout(timer)
        this.#waiting.delete(look)
        resolve(answer)
      }
      const look = () => {
        if (holds()) end(true)
      }
      const timer = setTimeout(end, timeoutMs, false)
      this.#waiting.add(look)
    })
  }
}

/** Resolves after the time given, or at once when the signal is aborted. */
export const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) return resolve()
    const end = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', end)
      resolve()
    }
    const timer = setTimeout(end, ms)
    signal.addEventListener('abort', end)
  })
