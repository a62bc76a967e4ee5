// Cuts a text into the pieces of a stream.

/** A word of more characters is cut within. */
const WORD = /\s*\S{1,80}|\s+/gu

/**
 * Words with the space in front of them, in at most `mostPieces` pieces. The pieces together are the text, and no
 * character is cut in two.
 */
export const textCuts = (text: string, mostPieces: number): readonly string[] => {
  const words = text.match(WORD) ?? []
  const each = Math.ceil(words.length / mostPieces)
  if (each <= 1) return words
  const pieces: string[] = []
  for (let at = 0; at < words.length; at += each) pieces.push(words.slice(at, at + each).join(''))
  return pieces
}
