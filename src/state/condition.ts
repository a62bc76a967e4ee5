// Waiting for a condition that the fold will fulfil.

/** Notified whenever something moved; waiters then check their condition again. */
export class Condition {
  readonly #waiting = new Set<() => void>()

  notify(): void {
    for (const look of [...this.#waiting]) look()
  }

  /**
   * Resolves true once `holds()` (which must not throw) is true, checked now and whenever something moved; false after
   * the time given.
   */
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
