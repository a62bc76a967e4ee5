// Text that is going to be bytes, whole or in pieces that belong one after another: putting it together as one text first costs a copy of it in cold memory.

/** Text that writes itself: a record over a template (`text-template.ts`), whose characters are one byte each, or `TextBefore`, which is no part of a head. */
export interface WritesItself {
  /** UTF-16 units of what it writes at most. */
  readonly length: number
  /** Into a buffer that has room for that; answers where it ends. */
  write(buffer: Buffer, at: number): number
  text(): string
}

/**
 * A text up to `end`. What stands behind it, all of ASCII, is written too, and what follows is written over that: no text is made of the part, which would be
 * one in cold memory that nobody keeps: with ids of records that are text only once somebody asks, 2 to 3 % of a request.
 */
export class TextBefore implements WritesItself {
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

/** A number stands for its digits, a text of which would be dearer. */
export type TextPiece = string | number | WritesItself
export type TextPieces = string | readonly TextPiece[]

/** Calls of the runtime cost as much as some dozens of characters, more where memory is cold. */
const SHORT_CHARS = 40
/** No number has more characters. */
const NUMBER_CHARS = 25

export const wholeText = (text: TextPieces): string => {
  if (typeof text === 'string') return text
  let whole = ''
  for (const piece of text) whole += typeof piece === 'object' ? piece.text() : piece
  return whole
}

/** UTF-16 units, or a few more: a third of the bytes at least. */
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
/** What Node and Bun call the ways in which `write` goes once it has read its arguments: 50 ns instead of 83 for 100 characters, some twenty times a request. */
const { utf8Write, latin1Write } = Buffer.prototype as unknown as Record<'utf8Write' | 'latin1Write', Write>

/** Writes a text as UTF-8 into a buffer that has room for it; answers how many bytes that was. */
export const writeUtf8 = (buffer: Buffer, at: number, text: string): number => utf8Write.call(buffer, text, at)

/** Writes it as UTF-8 into a buffer that has room for it; answers where it ends. */
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

/** Bytes of text whose characters are one each. */
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

/** Writes text whose characters are one byte each; answers where it ends. */
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

/** Whether it is one of the whole numbers whose digits are made here in one go. */
const isSmall = (value: number): boolean => (value | 0) === value && value >= 0
/** In two. */
const isLarge = (value: number): boolean => value >= BILLION && Number.isSafeInteger(value)
/** Of a large one: less than ten million. Divided down and put right: near its end the quotient of a double may be one more. */
const billionsIn = (value: number): number => {
  const billions = Math.floor(value / BILLION)
  return billions * BILLION > value ? billions - 1 : billions
}

const digitsOf = (value: number): number => {
  if (isSmall(value)) return digitCount(value)
  return isLarge(value) ? digitCount(billionsIn(value)) + BILLION_DIGITS : String(value).length
}

/** Compared instead of counted up: most are short. */
const digitCount = (value: number): number => {
  if (value < 100) return value < 10 ? 1 : 2
  if (value < 10_000) return value < 1_000 ? 3 : 4
  if (value < 1_000_000) return value < 100_000 ? 5 : 6
  if (value < 100_000_000) return value < 10_000_000 ? 7 : 8
  return value < BILLION ? 9 : 10
}

/** Answers where it ends. */
export const writeNumber = (buffer: Buffer, at: number, value: number): number => {
  if (isSmall(value)) return writeDigits(buffer, at, at + digitCount(value), value | 0)
  if (!isLarge(value)) return writeShort(buffer, at, String(value))
  const billions = billionsIn(value)
  const middle = writeDigits(buffer, at, at + digitCount(billions), billions | 0)
  return writeDigits(buffer, middle, middle + BILLION_DIGITS, (value - billions * BILLION) | 0)
}

/** Fills `[at, end)` with the last digits of a small number; answers `end`. */
const writeDigits = (buffer: Buffer, at: number, end: number, value: number): number => {
  let rest = value
  for (let place = end - 1; place >= at; place--) {
    const tenth = (rest / 10) | 0
    buffer[place] = 48 + rest - 10 * tenth
    rest = tenth
  }
  return end
}
