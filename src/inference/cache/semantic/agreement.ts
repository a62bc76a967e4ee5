// Whether two answers to messages that are alike say the same: how a rule in shadow is judged.
import { similarity } from './vector.ts'

export type Agreement = 'equal' | 'similar' | 'differs'

const SPACE = /\s+/g

/** Without what differs between two runs of a model that says the same. */
const plain = (text: string): string => text.normalize('NFKC').replace(SPACE, ' ').trim()

/** `vectors`: of both answers by the same model; null where one has none. `threshold`: least similarity. */
export const agreementOf = (
  left: string,
  right: string,
  vectors: readonly [Int8Array, Int8Array] | null,
  threshold: number,
): Agreement => {
  if (plain(left) === plain(right)) return 'equal'
  const value = vectors === null ? null : similarity(...vectors)
  return value !== null && value >= threshold ? 'similar' : 'differs'
}
