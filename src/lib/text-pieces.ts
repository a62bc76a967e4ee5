// Text that is going to be bytes, whole or in pieces that belong one after another: putting it together as one text first costs a copy of it in cold memory.

export type TextPieces = string | readonly string[]

export const wholeText = (text: TextPieces): string => (typeof text === 'string' ? text : text.join(''))

/** UTF-16 units: a third of the bytes at least. */
export const charsOf = (text: TextPieces): number => {
  if (typeof text === 'string') return text.length
  let chars = 0
  for (let i = 0; i < text.length; i++) chars += text[i]!.length
  return chars
}

/** Writes it as UTF-8 into a buffer that has room for it; answers where it ends. */
export const writeText = (buffer: Buffer, at: number, text: TextPieces): number => {
  if (typeof text === 'string') return at + buffer.write(text, at)
  let end = at
  for (let i = 0; i < text.length; i++) end += buffer.write(text[i]!, end)
  return end
}
