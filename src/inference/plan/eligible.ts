// Which candidates are left once something speaks against others, or once their room is looked at.
// A function in which a closure remembers something has a scope made for that whenever it is called: those that are seldom needed are made in functions of their own.
import type { CandidateSet } from './candidates.ts'
import type { RejectedReason } from './rejections.ts'

/** Those of the places against which nothing speaks. */
export const withoutReason = (
  places: readonly number[],
  reasons: readonly (RejectedReason | null)[],
): readonly number[] => places.filter((place) => reasons[place] === null)

/** Where some of a model's own rows are likely to hold the prompt and the answer, those that are not are left out. The estimate alone refuses nobody. */
export const fitting = (
  eligible: readonly number[],
  set: CandidateSet,
  wantedTokens: number,
  reasons: (RejectedReason | null)[],
): readonly number[] => {
  const { entries, ownCount } = set
  let fits = 0
  let own = 0
  for (const place of eligible) {
    if (place >= ownCount) break
    own++
    const { contextWindow } = entries[place]!
    if (contextWindow === null || wantedTokens <= contextWindow) fits++
  }
  return fits === 0 || fits === own ? eligible : onlyFitting(eligible, set, wantedTokens, reasons)
}

const onlyFitting = (
  eligible: readonly number[],
  { entries, ownCount }: CandidateSet,
  wantedTokens: number,
  reasons: (RejectedReason | null)[],
): readonly number[] =>
  eligible.filter((place) => {
    const { contextWindow } = entries[place]!
    if (place >= ownCount || contextWindow === null || wantedTokens <= contextWindow) return true
    reasons[place] = 'context_too_small'
    return false
  })
