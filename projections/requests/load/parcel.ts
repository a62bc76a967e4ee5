// Records of the log on their way to another thread: their numbers in a table, their bytes end to end, in memory that
// comes back to be filled again.
import type { LogRecord } from '../../../src/log/port.ts'

/** What another thread needs of a record. */
export type ParcelRecord = Pick<LogRecord, 'offset' | 'atMs' | 'value' | 'parts'>

/** What enveloped records share with those beside them. */
interface Names {
  readonly type: string
  readonly instance: string
  readonly epoch: string
}

export interface Parcel {
  readonly partition: number
  readonly count: number
  /** `COLUMNS` numbers of each record. */
  readonly numbers: Float64Array<ArrayBuffer>
  readonly bytes: Uint8Array<ArrayBuffer>
  readonly names: readonly Names[]
}

/** Memory of a parcel. */
export type Carrier = Pick<Parcel, 'numbers' | 'bytes'>

const COLUMNS = 5
const [OFFSET, AT, SEQUENCE, NAMES, END] = [0, 1, 2, 3, 4] as const
/** In the column of names: the bytes are the value as it stands; there is no value. */
const WHOLE = -1
const TOMBSTONE = -2

export const PARCEL_RECORDS = 256
const PARCEL_BYTES = 512 * 1_024

export const newCarrier = (): Carrier => ({
  numbers: new Float64Array(PARCEL_RECORDS * COLUMNS),
  bytes: new Uint8Array(PARCEL_BYTES),
})

/** Fills a carrier with the first of the records, at most PARCEL_RECORDS: as many as it holds, at least one. */
export const pack = (carrier: Carrier, partition: number, records: readonly LogRecord[]): Parcel => {
  const { numbers } = carrier
  const names: Names[] = []
  let buffer = Buffer.from(carrier.bytes.buffer)
  let end = 0
  let count = 0
  for (const record of records) {
    const { parts } = record
    const value = parts === undefined ? record.value : null
    const most = parts?.dataBytes ?? value?.length ?? 0
    if (count === 0 && most > buffer.length) buffer = Buffer.from(new ArrayBuffer(most))
    if (count === PARCEL_RECORDS || end + most > buffer.length) break
    const at = COLUMNS * count++
    numbers[at + OFFSET] = record.offset
    numbers[at + AT] = record.atMs
    if (parts !== undefined) {
      numbers[at + SEQUENCE] = parts.sequence
      numbers[at + NAMES] = placeOf(names, parts)
      end = parts.writeData(buffer, end)
    } else {
      numbers[at + NAMES] = value === null ? TOMBSTONE : WHOLE
      if (value !== null) buffer.set(value, end)
      end += most
    }
    numbers[at + END] = end
  }
  return { partition, count, numbers, bytes: new Uint8Array(buffer.buffer), names }
}

export const sizeOf = ({ count, numbers }: Parcel): number => numbers[COLUMNS * (count - 1) + END]!

const placeOf = (names: Names[], { type, instance, epoch }: Names): number => {
  const known = names.findIndex((each) => each.type === type && each.epoch === epoch && each.instance === instance)
  return known === -1 ? names.push({ type, instance, epoch }) - 1 : known
}

/** The records again, valid for as long as the parcel is not filled again. */
export function* unpack(parcel: Parcel): Generator<ParcelRecord> {
  const { count, numbers, names } = parcel
  const bytes = Buffer.from(parcel.bytes.buffer)
  const texts = textsIn(bytes, count === 0 ? 0 : sizeOf(parcel))
  let start = 0
  for (let record = 0; record < count; record++) {
    const at = COLUMNS * record
    const end = numbers[at + END]!
    const [offset, atMs, place] = [numbers[at + OFFSET]!, numbers[at + AT]!, numbers[at + NAMES]!]
    if (place === TOMBSTONE) yield { offset, atMs, value: null }
    else if (place === WHOLE) yield { offset, atMs, value: bytes.subarray(start, end) }
    else {
      const parts = new PackedParts(names[place]!, numbers[at + SEQUENCE]!, texts, start, end)
      yield { offset, atMs, value: null, parts }
    }
    start = end
  }
}

/**
 * Bytes and their text, which is decoded in one go where each byte is a character: a text is then a part of it, and no
 * copy.
 */
interface Texts {
  readonly bytes: Buffer
  readonly ascii: string | null
}

const textsIn = (bytes: Buffer, end: number): Texts => {
  const text = bytes.toString('utf8', 0, end)
  return { bytes, ascii: text.length === end ? text : null }
}

class PackedParts implements NonNullable<LogRecord['parts']> {
  readonly type: string
  readonly instance: string
  readonly epoch: string
  constructor(
    { type, instance, epoch }: Names,
    readonly sequence: number,
    private readonly texts: Texts,
    private readonly start: number,
    private readonly end: number,
  ) {
    this.type = type
    this.instance = instance
    this.epoch = epoch
  }
  get dataBytes(): number {
    return this.end - this.start
  }
  get data(): string {
    const { bytes, ascii } = this.texts
    return ascii === null ? bytes.toString('utf8', this.start, this.end) : ascii.slice(this.start, this.end)
  }
  writeData(into: Buffer, at: number): number {
    return at + this.texts.bytes.copy(into, at, this.start, this.end)
  }
}
