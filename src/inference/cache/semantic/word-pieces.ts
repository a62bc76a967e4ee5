// Text as the pieces of words of an uncased BERT vocabulary. Only what a vector of a text needs: the numbers of its
// pieces, without special tokens.

/** The number of a piece; undefined: it is none of the vocabulary. */
export type PieceNumbers = ReadonlyMap<string, number>

/** A longer word is one that no vocabulary has. */
const MOST_WORD_CHARS = 100
const MARKS = /\p{M}+/gu
const WORD = /[a-z0-9]+/g

/**
 * The numbers of the pieces of a text, greedily the longest first. A word that cannot be cut into pieces is left out;
 * `onUnknown` counts them.
 */
export const wordPieces = (text: string, numbers: PieceNumbers, onUnknown: () => void = ignored): readonly number[] => {
  const found: number[] = []
  const plain = text.normalize('NFD').replace(MARKS, '').toLowerCase()
  for (const [word] of plain.matchAll(WORD)) {
    const pieces = word.length > MOST_WORD_CHARS ? null : piecesOf(word, numbers)
    if (pieces === null) onUnknown()
    else found.push(...pieces)
  }
  return found
}

const ignored = (): void => {
  // The caller does not count them.
}

const piecesOf = (word: string, numbers: PieceNumbers): readonly number[] | null => {
  const pieces: number[] = []
  for (let start = 0; start < word.length; ) {
    let end = word.length
    let piece: number | undefined
    for (; end > start; end--) {
      piece = numbers.get(start === 0 ? word.slice(0, end) : `##${word.slice(start, end)}`)
      if (piece !== undefined) break
    }
    if (piece === undefined) return null
    pieces.push(piece)
    start = end
  }
  return pieces
}
