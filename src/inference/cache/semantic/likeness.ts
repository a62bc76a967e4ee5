// The stored message that requests the same as a new one: near by its vector, and equal by the guard.
import { readText, type UnlikeReason, unlikeBy } from './guard.ts'
import type { Likely, VectorIndex } from './vector-index.ts'

/** Entries whose text is compared: those behind them are less near. */
const MOST_COMPARED = 8

export interface LikenessQuery {
  readonly partition: string
  readonly text: string
  readonly vector: Int8Array
  /** The least similarity of a hit. */
  readonly similarity: number
  /** The stored message of an entry; null: the entry is gone. */
  readonly textOf: (key: string) => string | null
}

export interface LikenessResult {
  /** Null: none. */
  readonly hit: Likely | null
  /** The nearest one that the guard refused. */
  readonly refused: (Likely & { readonly reason: UnlikeReason }) | null
}

/** The nearest entry that the guard accepts. Entries that are gone leave the index. */
export const mostAlike = (index: Pick<VectorIndex, 'search' | 'remove'>, query: LikenessQuery): LikenessResult => {
  const { partition, text, vector, similarity, textOf } = query
  const wanted = readText(text)
  let refused: LikenessResult['refused'] = null
  for (const likely of index.search(partition, vector, similarity, MOST_COMPARED)) {
    const stored = textOf(likely.key)
    if (stored === null) {
      index.remove(likely.key)
      continue
    }
    const reason = unlikeBy(wanted, readText(stored))
    if (reason === null) return { hit: likely, refused }
    refused ??= { ...likely, reason }
  }
  return { hit: null, refused }
}
