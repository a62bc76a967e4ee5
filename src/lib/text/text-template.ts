// JSON text of which only a few values change: its bytes are made once, then copied as a whole, and the values written
// over spaces that are reserved for them. Why, and its gain: docs/decisions/0052-records-written-over.md.
import { type TextWriter, writeNumber, writeUtf8 } from './text-pieces.ts'

/** A text has letters, digits and signs that need no escape in JSON. A number is whole and not negative. */
export type GapValue = string | number | null

/** Beyond every number that occurs, and all gaps have the same length. */
const FIRST_GAP = 8_000_000_000_000_000
const GAP_CHARS = String(FIRST_GAP).length
/** Characters reserved for a number: what it needs and larger numbers of its kind may need. */
const ROOMS = [6, 10, 13, 16]
const LEAST_TEXT_ROOM = 40
/** A longer text may end with a number that grows. */
const TEXT_SLACK = 4

const TEXT = -1
const QUOTE = 0x22
const NULL = Buffer.from('null')

/** The placeholder of the number of a gap and, by `String`, of the text of one. */
export const gap = (place: number): number => FIRST_GAP + place

const roomOf = (value: GapValue): number => {
  if (typeof value === 'string') return value.length <= LEAST_TEXT_ROOM ? LEAST_TEXT_ROOM : value.length + TEXT_SLACK
  const digits = value === null ? NULL.length : String(value).length
  return ROOMS.find((room) => room >= digits) ?? GAP_CHARS
}

export class TextTemplate {
  private constructor(
    readonly bytes: Buffer,
    private readonly offsets: readonly number[],
    private readonly rooms: readonly number[],
    /** The least number that has no room; -1 for a text. */
    private readonly limits: readonly number[],
    /** Whether a number ends a quoted text, as in an id: its quote follows directly. */
    private readonly endsText: readonly boolean[],
  ) {}

  /**
   * Makes a template of a JSON text in which `gap(i)`, in quotes for a text, stands for the i-th of the values. A
   * number may also end a quoted text. Null when the text has characters of more than one byte, or does not contain
   * each gap exactly once, which a client's text could cause. `outgrown`: the template of the same text that had no
   * room for the values; the new one has room for what fitted there too.
   */
  static of(json: string, values: readonly GapValue[], outgrown: TextTemplate | null = null): TextTemplate | null {
    if (Buffer.byteLength(json) !== json.length) return null
    const places = values.map((_, i) => json.indexOf(String(gap(i))))
    if (places.some((place, i) => place < 0 || json.includes(String(gap(i)), place + 1))) return null
    const inOrder = places.map((_, i) => i).sort((one, other) => places[one]! - places[other]!)
    const offsets: number[] = []
    const rooms = values.map((value, i) => Math.max(roomOf(value), outgrown?.rooms[i] ?? 0))
    const areQuoted = places.map((place) => json.charCodeAt(place + GAP_CHARS) === QUOTE)
    let text = ''
    let from = 0
    for (const i of inOrder) {
      const quotes = areQuoted[i] ? 1 : 0
      text += json.slice(from, places[i])
      offsets[i] = text.length
      text += ' '.repeat(rooms[i]! + quotes)
      from = places[i]! + GAP_CHARS + quotes
    }
    const bytes = Buffer.from(text + json.slice(from), 'latin1')
    return new TextTemplate(
      bytes,
      offsets,
      rooms,
      rooms.map((room, i) => (typeof values[i] === 'string' ? TEXT : 10 ** room)),
      areQuoted.map((isQuoted, i) => isQuoted && typeof values[i] !== 'string'),
    )
  }

  /**
   * The text with these values, each of the type of the first ones, or null for a number that ends no text. Null where
   * a value has no room.
   */
  filled(values: readonly GapValue[]): FilledText | null {
    if (values.length !== this.offsets.length) return null
    for (let i = 0; i < values.length; i++) if (!this.hasRoom(values[i]!, i)) return null
    return new FilledText(this, values)
  }

  private hasRoom(value: GapValue, gapIndex: number): boolean {
    const limit = this.limits[gapIndex]!
    if (typeof value === 'number') return value >= 0 && value < limit && Number.isInteger(value)
    if (value === null) return limit !== TEXT && !this.endsText[gapIndex]!
    return limit === TEXT && value.length <= this.rooms[gapIndex]!
  }

  write(buffer: Buffer, at: number, values: readonly GapValue[]): number {
    buffer.set(this.bytes, at)
    for (let i = 0; i < values.length; i++) {
      const value = values[i]!
      const to = at + this.offsets[i]!
      if (typeof value === 'number') {
        const end = writeNumber(buffer, to, value)
        if (this.endsText[i]!) buffer[end] = QUOTE
      } else if (value === null) writeNull(buffer, to)
      else buffer[to + writeUtf8(buffer, to, value)] = QUOTE
    }
    return at + this.bytes.length
  }
}

/**
 * The template of one text, made when it is first filled and remade when values outgrow it. Once it cannot be made or
 * filled it is not tried again.
 */
export class GrowingTemplate {
  #template: TextTemplate | null = null
  #isGivenUp = false

  /** `json`: as for `TextTemplate.of`. */
  constructor(private readonly json: string) {}

  filled(values: readonly GapValue[]): FilledText | null {
    if (this.#isGivenUp) return null
    const filled = this.#template?.filled(values) ?? null
    if (filled !== null) return filled
    this.#template = TextTemplate.of(this.json, values, this.#template)
    const grown = this.#template?.filled(values) ?? null
    this.#isGivenUp = grown === null
    return grown
  }
}

const writeNull = (buffer: Buffer, at: number): void => {
  for (let i = 0; i < NULL.length; i++) buffer[at + i] = NULL[i]!
}

/** Spaces follow values that are shorter than their room. */
export class FilledText implements TextWriter {
  constructor(
    private readonly template: TextTemplate,
    private readonly values: readonly GapValue[],
  ) {}

  get length(): number {
    return this.template.bytes.length
  }

  write(buffer: Buffer, at: number): number {
    return this.template.write(buffer, at, this.values)
  }

  text(): string {
    const bytes = Buffer.allocUnsafe(this.length)
    return bytes.toString('latin1', 0, this.write(bytes, 0))
  }
}
