// The other instances, as this one hears them, until they are silent.
import type { InstanceAnnounced } from './instance-announced.ts'

/** Not heard of for so long while this one heard itself: no longer counted as live. */
const LIVE_MS = 5_000
const MAX_INSTANCES = 1_024

export class HeardInstances {
  readonly #others = new Map<string, { said: InstanceAnnounced; heardAtMs: number }>()
  #heardSelfAtMs = performance.now()

  /** `forgotten`: called for each that is not counted as live any more. */
  constructor(
    readonly forgotten: (instance: string) => void,
    readonly liveMs = LIVE_MS,
  ) {}

  /** What each said last. */
  live(): readonly InstanceAnnounced[] {
    this.#forgetSilent()
    return [...this.#others.values()].map(({ said }) => said)
  }

  /** Whether it is counted, and whether it was known before. */
  heard(said: InstanceAnnounced): 'new' | 'known' | 'too many' {
    this.#forgetSilent()
    const isKnown = this.#others.has(said.instance)
    if (!isKnown && this.#others.size === MAX_INSTANCES) return 'too many'
    this.#others.set(said.instance, { said, heardAtMs: performance.now() })
    return isKnown ? 'known' : 'new'
  }

  /**
   * Its own word has come back, so what others said before it was heard too. One that was stopped, or cut off from the log, knows of nobody's silence:
   * all have their time again.
   */
  heardSelf(): void {
    const nowMs = performance.now()
    if (nowMs - this.#heardSelfAtMs > this.liveMs / 2)
      for (const other of this.#others.values()) other.heardAtMs = nowMs
    this.#heardSelfAtMs = nowMs
  }

  #forgetSilent(): void {
    const before = this.#heardSelfAtMs - this.liveMs
    for (const [name, { heardAtMs }] of this.#others) {
      if (heardAtMs >= before) continue
      this.#others.delete(name)
      this.forgotten(name)
    }
  }
}
