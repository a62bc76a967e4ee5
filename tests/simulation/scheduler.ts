// Virtual time: events in the order in which they happen, each for one process. Everything between two events is
// synchronous.
import { drainMicrotasks } from 'bun:jsc'

/** Whose event it is. A dead process's events are dropped; a paused one's wait until it goes on. */
export interface Owner {
  readonly name: string
  alive: boolean
  pausedUntilMs: number
  /** Events that came during the pause, in their order. */
  held: Scheduled[]
  /** Whose wall clock it reads. */
  readonly machine: { readonly skewMs: number } | null
}

/** The owner of events of no process: the network, the broker, the disk's platter, and the injection of faults. */
export const NOBODY: Owner = { name: '-', alive: true, pausedUntilMs: 0, held: [], machine: null }

export interface Scheduled {
  readonly owner: Owner
  readonly run: () => void
  atMs: number
  order: number
  canceled: boolean
}

const isBefore = (one: Scheduled, other: Scheduled): boolean =>
  one.atMs < other.atMs || (one.atMs === other.atMs && one.order < other.order)

/** More than any run takes: something goes round and round. */
const MOST_EVENTS = 400_000

export class Scheduler {
  /** Milliseconds since the run began: the monotonic clock of every process. */
  nowMs = 0
  /** Whose event is under way. */
  current: Owner = NOBODY
  events = 0
  #order = 0
  readonly #heap: Scheduled[] = []

  /** Something to be done for a process after so long. */
  after(delayMs: number, owner: Owner, run: () => void): Scheduled {
    const event = { owner, run, atMs: this.nowMs + Math.max(0, delayMs), order: this.#order++, canceled: false }
    this.#push(event)
    return event
  }

  /** Runs what is due up to a time. */
  runUntil(untilMs: number): void {
    for (let event = this.#heap[0]; event !== undefined && event.atMs <= untilMs; event = this.#heap[0]) {
      this.#pop()
      this.#happen(event)
    }
    this.nowMs = Math.max(this.nowMs, untilMs)
  }

  /** Runs until `holds()`, looked at between events; false when the time is over first. */
  runWhile(untilMs: number, goesOn: () => boolean): boolean {
    while (goesOn()) {
      const event = this.#heap[0]
      if (event === undefined || event.atMs > untilMs) return false
      this.#pop()
      this.#happen(event)
    }
    return true
  }

  /** A process stands still for so long. */
  pause(owner: Owner, forMs: number): void {
    owner.pausedUntilMs = Math.max(owner.pausedUntilMs, this.nowMs + forMs)
    this.after(forMs, NOBODY, () => {
      if (owner.pausedUntilMs <= this.nowMs) this.resume(owner)
    })
  }

  /** The owner resumes with the events that came during the pause. */
  resume(owner: Owner): void {
    owner.pausedUntilMs = 0
    for (const event of owner.held.splice(0)) {
      event.atMs = this.nowMs
      event.order = this.#order++
      this.#push(event)
    }
  }

  /** Does something as a process, now. */
  as(owner: Owner, run: () => void): void {
    const before = this.current
    this.current = owner
    run()
    drainMicrotasks()
    this.current = before
  }

  #happen(event: Scheduled): void {
    this.nowMs = event.atMs
    const { owner } = event
    if (event.canceled || !owner.alive) return
    if (owner.pausedUntilMs > this.nowMs) {
      owner.held.push(event)
      return
    }
    if (++this.events > MOST_EVENTS) throw new Error(`more than ${MOST_EVENTS} events: something goes round and round`)
    this.as(owner, event.run)
  }

  #push(event: Scheduled): void {
    const heap = this.#heap
    let at = heap.length
    heap.push(event)
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (!isBefore(event, heap[parent]!)) break
      heap[at] = heap[parent]!
      at = parent
    }
    heap[at] = event
  }

  #pop(): void {
    const heap = this.#heap
    const last = heap.pop()!
    if (heap.length === 0) return
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= heap.length) break
      if (child + 1 < heap.length && isBefore(heap[child + 1]!, heap[child]!)) child++
      if (!isBefore(heap[child]!, last)) break
      heap[at] = heap[child]!
      at = child
    }
    heap[at] = last
  }
}
