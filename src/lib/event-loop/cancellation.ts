// Canceling without `AbortController`: that one is a DOM object with wrappers and weak references, several kilobytes of garbage for each request,
// and 0.65 us in a loop instead of 0.05.

/** Told when the signal is raised; a function or, without a closure to make, an object. */
export type CancelListener = (() => void) | { handleEvent(): void }

/** What an upstream call listens to. An `AbortSignal` is one as well. */
export interface CancelSignal {
  readonly aborted: boolean
  addEventListener(type: 'abort', listener: CancelListener): void
  removeEventListener(type: 'abort', listener: CancelListener): void
}

/** A signal and what raises it, in one plain object. Listeners are told once, in the order in which they came. */
export class Cancellation implements CancelSignal {
  aborted = false
  /** Nearly always there is one listener at a time, so the first needs no list. */
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
    if (first !== null) tell(first)
    if (others !== null) for (const listener of others) tell(listener)
  }
}

const tell = (listener: CancelListener): void => {
  if (typeof listener === 'function') listener()
  else listener.handleEvent()
}
