// Text that will be written as bytes, whole or in pieces that follow one another. Joining the pieces first would copy
// the text in cold memory.

/**
 * Text that writes itself: a filled template (`text-template.ts`), one byte a character, or `TextPrefix`, which is
 * never part of a head.
 */
export interface TextWriter {
  /** Largest number of UTF-16 units that `write` writes. */
  readonly length: number
  /** Writes into a buffer with room for `length` units; returns where the text ends. */
  write(buffer: Buffer, at: number): number
  text(): string
}

/**
 * A text up to `end`. The rest, which must be ASCII, is written too, and overwritten by what follows: no string is made
 * of the part, which would be garbage in cold memory.
 */
export class TextPrefix implements TextWriter {
  constructor(
    private readonly whole: string,
    private readonly end: number,
  ) {}

  get length(): number {
    return this.whole.length
  }

  write(buffer: Buffer, at: number): number {
    return at + writeUtf8(buffer, at, this.whole) - (this.whole.length - this.end)
  }

  text(): string {
    return this.whole.slice(0, this.end)
  }
}

/** A number stands for its decimal digits, without a string of them. */
export type TextPiece = string | number | TextWriter
export type TextPieces = string | readonly TextPiece[]

/**
 * Up to this length characters are written in a loop: a call of the runtime costs as much as some dozens of characters.
 */
const SHORT_CHARS = 40
/** The longest text of a number. */
const NUMBER_CHARS = 25

export const wholeText = (text: TextPieces): string => {
  if (typeof text === 'string') return text
  let whole = ''
  for (const piece of text) whole += typeof piece === 'object' ? piece.text() : piece
  return whole
}

/** UTF-16 units, or a few more; at least a third of the bytes. */
export const charsOf = (text: TextPieces): number => {
  if (typeof text === 'string') return text.length
  let chars = 0
  for (let i = 0; i < text.length; i++) {
    const piece = text[i]!
    if (typeof piece === 'string') chars += piece.length
    else chars += typeof piece === 'number' ? NUMBER_CHARS : piece.length
  }
  return chars
}

type Write = (this: Buffer, text: string, at: number) => number
/**
 * The functions of Node and Bun behind `Buffer.write`, without its checks of arguments (`bench -- tricks`, answers).
 */
const { utf8Write, latin1Write } = Buffer.prototype as unknown as Record<'utf8Write' | 'latin1Write', Write>

/** Writes a text as UTF-8 into a buffer with room for it; returns the number of bytes. */
export const writeUtf8 = (buffer: Buffer, at: number, text: string): number => utf8Write.call(buffer, text, at)

/** Writes text as UTF-8 into a buffer with room for it; returns where it ends. */
export const writeText = (buffer: Buffer, at: number, text: TextPieces): number => {
  if (typeof text === 'string') return at + writeUtf8(buffer, at, text)
  let end = at
  for (let i = 0; i < text.length; i++) {
    const piece = text[i]!
    if (typeof piece === 'number') end = writeNumber(buffer, end, piece)
    else if (typeof piece === 'object') end = piece.write(buffer, end)
    else end = piece.length <= SHORT_CHARS ? writeShort(buffer, end, piece) : end + writeUtf8(buffer, end, piece)
  }
  return end
}

/** Bytes of text whose characters are one byte each. */
export const latin1Length = (text: TextPieces): number => {
  if (typeof text === 'string') return text.length
  let bytes = 0
  for (let i = 0; i < text.length; i++) {
    const piece = text[i]!
    if (typeof piece === 'string') bytes += piece.length
    else bytes += typeof piece === 'number' ? digitsOf(piece) : piece.length
  }
  return bytes
}

/** Writes text whose characters are one byte each; returns where it ends. */
export const writeLatin1 = (buffer: Buffer, at: number, text: TextPieces): number => {
  if (typeof text === 'string') return writeBytes(buffer, at, text)
  let end = at
  for (let i = 0; i < text.length; i++) {
    const piece = text[i]!
    if (typeof piece === 'string') end = writeBytes(buffer, end, piece)
    else end = typeof piece === 'number' ? writeNumber(buffer, end, piece) : piece.write(buffer, end)
  }
  return end
}

const writeBytes = (buffer: Buffer, at: number, text: string): number => {
  const { length } = text
  if (length > SHORT_CHARS) return at + latin1Write.call(buffer, text, at)
  for (let i = 0; i < length; i++) buffer[at + i] = text.charCodeAt(i)
  return at + length
}

const writeShort = (buffer: Buffer, at: number, text: string): number => {
  const { length } = text
  for (let i = 0; i < length; i++) {
    const code = text.charCodeAt(i)
    if (code > 0x7f) return at + writeUtf8(buffer, at, text)
    buffer[at + i] = code
  }
  return at + length
}

const BILLION = 1_000_000_000
const BILLION_DIGITS = 9

/** Whether it is a whole number whose digits are written in one go. */
const isSmall = (value: number): boolean => (value | 0) === value && value >= 0
/** Whether it is a whole number whose digits are written in two parts. */
const isLarge = (value: number): boolean => value >= BILLION && Number.isSafeInteger(value)
/**
 * The billions in a large number, less than ten million. The rounded quotient may be one too high, so it is corrected.
 */
const billionsIn = (value: number): number => {
  const billions = Math.floor(value / BILLION)
  return billions * BILLION > value ? billions - 1 : billions
}

const digitsOf = (value: number): number => {
  if (isSmall(value)) return digitCount(value)
  return isLarge(value) ? digitCount(billionsIn(value)) + BILLION_DIGITS : String(value).length
}

/** Number of decimal digits, found by comparisons: most numbers are short. */
const digitCount = (value: number): number => {
  if (value < 100) return value < 10 ? 1 : 2
  if (value < 10_000) return value < 1_000 ? 3 : 4
  if (value < 1_000_000) return value < 100_000 ? 5 : 6
  if (value < 100_000_000) return value < 10_000_000 ? 7 : 8
  return value < BILLION ? 9 : 10
}

/** Writes the digits of a number; returns where they end. */
export const writeNumber = (buffer: Buffer, at: number, value: number): number => {
  if (isSmall(value)) return writeDigits(buffer, at, at + digitCount(value), value | 0)
  if (!isLarge(value)) return writeShort(buffer, at, String(value))
  const billions = billionsIn(value)
  const middle = writeDigits(buffer, at, at + digitCount(billions), billions | 0)
  return writeDigits(buffer, middle, middle + BILLION_DIGITS, (value - billions * BILLION) | 0)
}

/** Fills `[at, end)` with the last digits of a small number; returns `end`. */
const writeDigits = (buffer: Buffer, at: number, end: number, value: number): number => {
  let rest = value
  for (let place = end - 1; place >= at; place--) {
    const tenth = (rest / 10) | 0
    buffer[place] = 48 + rest - 10 * tenth
    rest = tenth
  }
  return end
}
