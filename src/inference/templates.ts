// Templates of records that were made once: a few for each thing that many of them are about, as long as it lives.
import type { TextTemplate } from '../lib/text-template.ts'

interface Known<Key> {
  /** What the text depends on beside its gaps. */
  readonly key: Key
  readonly template: TextTemplate
}

const MOST = 8
/** Making one takes as long as a dozen texts without. */
const LEARN_EVERY = 16

class Entry<Key> {
  readonly known: Known<Key>[] = []
  misses = 0
}

export class Templates<Subject extends WeakKey, Key> {
  readonly #entries = new WeakMap<Subject, Entry<Key>>()

  /** Newest last. */
  of(subject: Subject): readonly Known<Key>[] {
    return this.#entries.get(subject)?.known ?? NONE
  }

  /** None of them fits: whether one is to be made. The first time, and then seldom, so that what changes all the time costs little. */
  isToLearn(subject: Subject): boolean {
    let entry = this.#entries.get(subject)
    if (entry === undefined) {
      entry = new Entry()
      this.#entries.set(subject, entry)
    }
    return entry.misses++ % LEARN_EVERY === 0
  }

  /** In place of the oldest where there are enough. */
  add(subject: Subject, known: Known<Key>): void {
    const entry = this.#entries.get(subject)!
    if (entry.known.length === MOST) entry.known.shift()
    entry.known.push(known)
  }
}

const NONE: readonly never[] = []
