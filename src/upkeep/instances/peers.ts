// The other instances, as their announcements show them, until they are silent.
import type { InstanceAnnounced } from './instance-announced.ts'

/** An instance without announcements for so long, while this one read its own, is no longer counted as live. */
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

  /** The last announcement of each. */
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
   * An announcement of this instance has come back, so earlier ones of others have been read too. An instance that was
   * stopped, or cut off from the log, cannot know that others were silent: all get their full time again.
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
