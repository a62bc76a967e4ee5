// Who is told of the fold. A listener that fails is said so and does not stop the fold, nor the other listeners.
import type { Diagnostics } from '../../lib/process/diagnostics.ts'
import type { FoldStep } from '../fold.ts'
import type { FoldedBatch } from '../port.ts'

export class Listeners {
  readonly #batches = new Set<(batch: FoldedBatch) => void>()
  readonly #steps = new Set<(step: FoldStep) => void>()

  constructor(readonly diagnostics: Diagnostics) {}

  subscribe(listener: (batch: FoldedBatch) => void): () => void {
    this.#batches.add(listener)
    return () => this.#batches.delete(listener)
  }

  watch(listener: (step: FoldStep) => void): () => void {
    this.#steps.add(listener)
    return () => this.#steps.delete(listener)
  }

  /** The indexes of the hot path first: whoever waits for the decision finds them up to date. */
  batch(batch: FoldedBatch): void {
    for (const listener of this.#batches) this.#tell(listener, batch)
  }

  step(step: FoldStep): void {
    for (const listener of this.#steps) this.#tell(listener, step)
  }

  #tell<What>(listener: (what: What) => void, what: What): void {
    try {
      listener(what)
    } catch (error) {
      this.diagnostics.error('fold_listener_failed', { error })
    }
  }
}
