// The other instances, as their announcements show them, until they are silent.
import type { InstanceAnnounced } from './instance-announced.ts'

/** An instance without announcements for so long, while this one read its own, is no longer counted as live. */
const LIVE_MS = 5_000
const MAX_INSTANCES = 1_024

export class PeerInstances {
  readonly #others = new Map<string, { announced: InstanceAnnounced; receivedAtMs: number }>()
  #ownReceivedAtMs = performance.now()

  /** `forgotten`: called for each that is not counted as live any more. */
  constructor(
    readonly forgotten: (instance: string) => void,
    readonly liveMs = LIVE_MS,
  ) {}

  /** The last announcement of each. */
  live(): readonly InstanceAnnounced[] {
    return this.heard().map(({ announced }) => announced)
  }

  /** The same, with when it was read (monotonic). */
  heard(): readonly { readonly announced: InstanceAnnounced; readonly receivedAtMs: number }[] {
    this.#forgetSilent()
    return [...this.#others.values()]
  }

  /** Whether it is counted, and whether it was known before. */
  receive(announced: InstanceAnnounced): 'new' | 'known' | 'too many' {
    this.#forgetSilent()
    const isKnown = this.#others.has(announced.instance)
    if (!isKnown && this.#others.size === MAX_INSTANCES) return 'too many'
    this.#others.set(announced.instance, { announced, receivedAtMs: performance.now() })
    return isKnown ? 'known' : 'new'
  }

  /**
   * An announcement of this instance has come back, so earlier ones of others have been read too. An instance that was
   * stopped, or cut off from the log, cannot know that others were silent: all get their full time again.
   */
  receiveOwn(): void {
    const nowMs = performance.now()
    if (nowMs - this.#ownReceivedAtMs > this.liveMs / 2)
      for (const other of this.#others.values()) other.receivedAtMs = nowMs
    this.#ownReceivedAtMs = nowMs
  }

  #forgetSilent(): void {
    const before = this.#ownReceivedAtMs - this.liveMs
    for (const [name, { receivedAtMs }] of this.#others) {
      if (receivedAtMs >= before) continue
      this.#others.delete(name)
      this.forgotten(name)
    }
  }
}
