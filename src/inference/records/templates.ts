// Templates of records: a few for each subject that many records have in common, as long as the subject lives
// (`lib/text/text-template.ts`).
import type { FilledText, GapValue, TextTemplate } from '../../lib/text/text-template.ts'

interface CachedTemplate<Key> {
  /** What the text depends on besides its gaps. */
  readonly key: Key
  readonly template: TextTemplate
}

const MAX_TEMPLATES = 8
/**
 * Making a template costs as much as a dozen texts: it is made at the second miss (the first may stay the only one),
 * then at every sixteenth.
 */
const LEARN_FIRST = 2
const LEARN_EVERY = 16
/** Where most texts still miss, a template is made at twice as many misses each time, up to this. */
const LEARN_SELDOM = 16_384

/** The templates of one subject. */
export class SubjectTemplates<Key> {
  #cached: CachedTemplate<Key>[] = []
  #hits = 0
  #misses = 0
  #learnEvery = LEARN_FIRST

  /** Newest last. */
  get all(): readonly CachedTemplate<Key>[] {
    return this.#cached
  }

  /** One of them was filled. */
  hit(filled: FilledText): FilledText {
    this.#hits++
    return filled
  }

  /** No template fits; returns whether one is to be made now. */
  miss(): boolean {
    if (++this.#misses < this.#learnEvery) return false
    const isWorth = this.#learnEvery === LEARN_FIRST || this.#hits >= this.#misses
    this.#learnEvery = isWorth ? LEARN_EVERY : Math.min(2 * this.#learnEvery, LEARN_SELDOM)
    this.#hits = 0
    this.#misses = 0
    return true
  }

  /**
   * Makes a template in place of the outgrown one of the same key, or of the oldest; none where the given values do not
   * fit it.
   */
  learn(
    key: Key,
    values: readonly GapValue[],
    isSame: (other: Key) => boolean,
    make: (outgrown: TextTemplate | null) => TextTemplate | null,
  ): void {
    const outgrown = this.#cached.find((each) => isSame(each.key)) ?? null
    const template = make(outgrown?.template ?? null)
    if (template === null || template.filled(values) === null) return
    const others = this.#cached.filter((each) => each !== outgrown)
    this.#cached = [...(others.length === MAX_TEMPLATES ? others.slice(1) : others), { key, template }]
  }
}

export class Templates<Subject extends WeakKey, Key> {
  readonly #bySubject = new WeakMap<Subject, SubjectTemplates<Key>>()

  of(subject: Subject): SubjectTemplates<Key> {
    let cached = this.#bySubject.get(subject)
    if (cached === undefined) {
      cached = new SubjectTemplates()
      this.#bySubject.set(subject, cached)
    }
    return cached
  }
}
