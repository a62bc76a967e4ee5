// Canceling without `AbortController`: that one is a DOM object with wrappers and weak references, several kilobytes of garbage for each request.

/** What an upstream call listens to. An `AbortSignal` is one as well. */
export interface CancelSignal {
  readonly aborted: boolean
  addEventListener(type: 'abort', listener: () => void): void
  removeEventListener(type: 'abort', listener: () => void): void
}

/** A signal and what raises it, in one plain object. Listeners are told once, in the order in which they came. */
export class Cancellation implements CancelSignal {
  aborted = false
  #listeners: (() => void)[] = []

  addEventListener(_type: 'abort', listener: () => void): void {
    if (!this.aborted) this.#listeners.push(listener)
  }

  removeEventListener(_type: 'abort', listener: () => void): void {
    const at = this.#listeners.indexOf(listener)
    if (at >= 0) this.#listeners.splice(at, 1)
  }

  abort(): void {
    if (this.aborted) return
    this.aborted = true
    const listeners = this.#listeners
    this.#listeners = []
    for (const listener of listeners) listener()
  }
}
