// Which providers take the question for usage on a stream, by what they answered to it: servers of one kind differ. In memory; a start asks anew.
import type { CatalogueEntry } from '../port.ts'

/** So long a refusal is heeded; then the server is asked again, as it may be a newer one. */
const HEEDED_MS = 3_600_000
/** Beyond it the oldest are forgotten, and learnt again. */
const MOST = 1_024

type Provider = Pick<CatalogueEntry, 'providerId' | 'baseUrl' | 'upstreamModel'>

interface Answer {
  readonly takes: boolean
  /** Monotonic. */
  readonly atMs: number
}

/** At another address, or for another model, another server may answer. */
const keyOf = ({ providerId, baseUrl, upstreamModel }: Provider): string => `${providerId} ${baseUrl} ${upstreamModel}`

export class UsageAnswers {
  readonly #answers = new Map<string, Answer>()

  constructor(private readonly monotonicMs: () => number) {}

  /** Null: it was not asked yet, or refused long ago. */
  takes(provider: Provider): boolean | null {
    const answer = this.#answers.get(keyOf(provider))
    if (answer === undefined) return null
    return answer.takes || this.monotonicMs() - answer.atMs < HEEDED_MS ? answer.takes : null
  }

  answered(provider: Provider, takes: boolean): void {
    if (this.takes(provider) === takes) return
    const key = keyOf(provider)
    this.#answers.delete(key)
    this.#answers.set(key, { takes, atMs: this.monotonicMs() })
    if (this.#answers.size > MOST) this.#answers.delete(this.#answers.keys().next().value!)
  }
}
