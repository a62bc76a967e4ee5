// Records of the control topic on their way from the thread that reads ahead to the one that folds. As JSON text: a
// text goes from thread to thread without a copy, and a text of many decisions is parsed faster than the bytes of each.
// Only the thread that folds parses it: a parcel is one array, in which each record is five elements: a mark, its
// offset, its log time, its id (null: the record is unparsed) and its decision.
import { formErrorOf, mayBeDeep, readText } from '../../domain/kernel/decision.ts'
import type { LogRecord } from '../../log/port.ts'
import type { RecordRead } from '../fold.ts'

export const PARCEL_RECORDS = 512
/** The second bound of a parcel, so that few long records are a parcel too. */
const PARCEL_CHARACTERS = 1_048_576
const RECORD_ELEMENTS = 5
/**
 * The first bytes of every decision. Another record with a valid MAC, above all a turn, is passed unparsed: otherwise
 * its whole parcel would take the slow path.
 */
const DECISION_BEGINS = '{"parent":"'

/**
 * A random number, which no text in the log can contain on purpose: its presence between the elements proves that a
 * text ended, so none runs into the next one.
 */
const newMark = (): number => crypto.getRandomValues(new Uint32Array(1))[0]!

const base64Of = (value: Uint8Array): string => Buffer.from(value).toString('base64')

export class ParcelPacker {
  #mark = newMark()
  #texts: string[] = []
  #characters = 0

  constructor(readonly macKey: Uint8Array) {}

  /**
   * Adds a record. Only a record that has a valid MAC and begins as a decision leaves its bytes behind: the thread that
   * folds judges all others.
   */
  add(record: LogRecord): void {
    const { offset, atMs, key, value } = record
    const read = value === null ? null : readText(value, this.macKey)
    const text =
      read !== null && 'text' in read && read.text.startsWith(DECISION_BEGINS) && !mayBeDeep(read.text)
        ? `${this.#mark},${offset},${atMs},"${read.id}",${read.text}`
        : `${this.#mark},${offset},${atMs},null,${JSON.stringify({ key, value: value && base64Of(value) })}`
    this.#texts.push(text)
    this.#characters += text.length
  }

  get isFull(): boolean {
    return this.#texts.length >= PARCEL_RECORDS || this.#characters >= PARCEL_CHARACTERS
  }

  /** The parcel of the records since the last one; null: there are none. */
  take(): string | null {
    if (this.#texts.length === 0) return null
    const parcel = `[${this.#texts.length},${this.#texts.join(',')},${this.#mark}]`
    this.#texts = []
    this.#characters = 0
    this.#mark = newMark()
    return parcel
  }
}

/** Number of records in a parcel. */
export const countOf = (parcel: string): number => Number.parseInt(parcel.slice(1, 12), 10)

/**
 * The records again, in their order; null: one of them is no decision although its MAC is valid, and only its bytes
 * show what it is.
 */
export const unpack = (parcel: string): readonly (LogRecord | RecordRead)[] | null => {
  let elements: readonly unknown[]
  try {
    elements = JSON.parse(parcel)
  } catch {
    return null
  }
  const count = countOf(parcel)
  const mark = elements[1]
  if (elements.length !== count * RECORD_ELEMENTS + 2) return null
  const records: (LogRecord | RecordRead)[] = []
  for (let at = 1; at + RECORD_ELEMENTS < elements.length; at += RECORD_ELEMENTS) {
    if (elements[at + RECORD_ELEMENTS] !== mark) return null
    const record = recordOf(elements, at)
    if (record === null) return null
    records.push(record)
  }
  return records
}

const recordOf = (elements: readonly unknown[], at: number): LogRecord | RecordRead | null => {
  const offset = elements[at + 1] as number
  const atMs = elements[at + 2] as number
  const id = elements[at + 3] as string | null
  const content = elements[at + 4]
  if (id !== null) return formErrorOf(content) === null ? ({ offset, atMs, id, decision: content } as RecordRead) : null
  const { key, value } = content as { readonly key: string | null; readonly value: string | null }
  return { offset, atMs, key, value: value === null ? null : Buffer.from(value, 'base64') }
}
