// Cancellation without `AbortController`, a DOM object with wrappers and weak references that costs several kilobytes
// of garbage a request.

/** Called when the signal is raised: a function or, to avoid a closure, an object. */
export type CancelListener = (() => void) | { handleEvent(): void }

/** The signal of an upstream call. An `AbortSignal` is one as well. */
export interface CancelSignal {
  readonly aborted: boolean
  addEventListener(type: 'abort', listener: CancelListener): void
  removeEventListener(type: 'abort', listener: CancelListener): void
}

/** A signal and its source in one plain object. Listeners are called once, in the order in which they were added. */
export class Cancellation implements CancelSignal {
  aborted = false
  /** Nearly always there is one listener at a time, so the first one needs no list. */
  #first: CancelListener | null = null
  #others: CancelListener[] | null = null

  addEventListener(_type: 'abort', listener: CancelListener): void {
    if (this.aborted) return
    if (this.#first === null && this.#others === null) this.#first = listener
    else {
      this.#others ??= []
      this.#others.push(listener)
    }
  }

  removeEventListener(_type: 'abort', listener: CancelListener): void {
    if (this.#first === listener) this.#first = null
    else if (this.#others !== null) {
      const at = this.#others.indexOf(listener)
      if (at >= 0) this.#others.splice(at, 1)
    }
    if (this.#others?.length === 0) this.#others = null
  }

  abort(): void {
    if (this.aborted) return
    this.aborted = true
    const first = this.#first
    const others = this.#others
    this.#first = null
    this.#others = null
    if (first !== null) notify(first)
    if (others !== null) for (const listener of others) notify(listener)
  }
}

const notify = (listener: CancelListener): void => {
  if (typeof listener === 'function') listener()
  else listener.handleEvent()
}
