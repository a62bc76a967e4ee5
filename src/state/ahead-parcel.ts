// Records of the control topic on their way from the thread that reads ahead to the one that folds. As JSON text: a text goes from thread to thread
// without a copy, and that of many decisions is made into objects faster than the bytes of each.
import { readDecision } from '../domain/decision.ts'
import type { LogRecord } from '../log/port.ts'
import type { RecordRead } from './fold.ts'

export const PARCEL_RECORDS = 512
/** So that few long records are a parcel too. */
const PARCEL_CHARACTERS = 1_048_576

export class AheadPacker {
  #texts: string[] = []
  #characters = 0

  constructor(readonly macKey: Uint8Array) {}

  /** Reads a record and adds it. Only of a decision the bytes stay behind: whatever else it is, the thread that folds says so. */
  add(record: LogRecord): void {
    const { offset, atMs, key, value } = record
    const read = value === null ? null : readDecision(value, this.macKey)
    const text =
      read !== null && 'decision' in read
        ? `{"offset":${offset},"atMs":${atMs},"id":"${read.id}","decision":${read.text}}`
        : JSON.stringify({ offset, atMs, key, value: value === null ? null : Buffer.from(value).toString('base64') })
    this.#texts.push(text)
    this.#characters += text.length
  }

  get isFull(): boolean {
    return this.#texts.length >= PARCEL_RECORDS || this.#characters >= PARCEL_CHARACTERS
  }

  /** The parcel of what was added since the last one; null: nothing. */
  take(): string | null {
    if (this.#texts.length === 0) return null
    const parcel = `[${this.#texts.join(',')}]`
    this.#texts = []
    this.#characters = 0
    return parcel
  }
}

type Packed = RecordRead | (Omit<LogRecord, 'value'> & { readonly value: string | null })

/** The records again, in their order. */
export const unpack = (parcel: string): readonly (LogRecord | RecordRead)[] => {
  const packed: readonly Packed[] = JSON.parse(parcel)
  return packed.some((record) => !('decision' in record)) ? packed.map(unpackOne) : (packed as readonly RecordRead[])
}

const unpackOne = (record: Packed): LogRecord | RecordRead =>
  'decision' in record
    ? record
    : { ...record, value: record.value === null ? null : Buffer.from(record.value, 'base64') }
