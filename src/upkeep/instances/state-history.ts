// The digests of the last states, by offset: what other instances' digests are compared with.
import type { LiveChain } from '../../state/live-chain.ts'

const KEPT = 4_096

export class StateHistory {
  #states: { readonly offset: number; readonly digest: string }[] = []
  #of: LiveChain['state']

  constructor(readonly live: Pick<LiveChain, 'state' | 'status' | 'next'>) {
    this.#of = live.state
    this.note()
  }

  /** Called after each decision that counted. */
  note(): void {
    if (this.live.state !== this.#of) {
      // The log was read again from its start: offsets may have another meaning now.
      this.#of = this.live.state
      this.#states = []
    }
    const { offset, digest } = this.live.status()
    this.#states.push({ offset, digest })
    if (this.#states.length > KEPT * 2) this.#states = this.#states.slice(-KEPT)
  }

  /** The digest when everything below `offset` was folded; null when that is too long ago, or not reached yet. */
  digestAt(offset: number): string | null {
    if (this.live.state !== this.#of || offset > this.live.next) return null
    for (let at = this.#states.length - 1; at >= 0; at--) {
      const state = this.#states[at]!
      if (state.offset <= offset) return state.digest // records since then changed nothing
    }
    return null
  }
}
