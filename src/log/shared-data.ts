// The data of a record that names texts instead of spelling them (lib/shared-text.ts, docs/decisions/0047). Pure.
//
// A count of texts in a byte; for each of them how many bytes of the record's own stand before it, how many of the text itself (0: it is spelled elsewhere in its
// batch), and its name; then all these bytes, and the record's own behind the last text. What a batch needs stands in the batch, before it is named: a batch that
// is written again elsewhere says all that it said.
import { type RecordText, wholeRecordText } from '../lib/shared-text.ts'
import { writePiece, writeText } from '../lib/text-pieces.ts'

/** Own bytes before it, its bytes, its name. */
const ENTRY_BYTES = 12
const MOST_SHARED = 255
const MOST_PART_BYTES = 0xffff
/** No number has more. */
const NUMBER_BYTES = 25

/** Bytes of UTF-8 at most. */
const boundOf = (data: RecordText): number => {
  if (typeof data === 'string') return 3 * data.length
  let chars = 0
  let bytes = 0
  for (let i = 0; i < data.length; i++) {
    const piece = data[i]!
    if (typeof piece === 'string') chars += piece.length
    else if (typeof piece === 'number') bytes += NUMBER_BYTES
    else bytes += piece.bytes.length
  }
  return 3 * chars + bytes
}

/** Room that it needs at most, however it is written. */
export const dataBound = (data: RecordText): number =>
  boundOf(data) + (typeof data === 'string' ? 0 : 1 + ENTRY_BYTES * data.length)

/** Whether it has more bytes. */
export const isLonger = (data: RecordText, bytes: number): boolean =>
  boundOf(data) > bytes && Buffer.byteLength(wholeRecordText(data)) > bytes

/** Texts of a record that are named in it; 0: none, or it is too long for that. `bound`: at least its bytes. */
export const sharedIn = (data: RecordText, bound: number): number => {
  if (typeof data === 'string' || bound > MOST_PART_BYTES) return 0
  let count = 0
  for (let i = 0; i < data.length; i++) if (typeof data[i] === 'object') count++
  return count > MOST_SHARED ? 0 : count
}

/** Writes it as it is read; answers where it ends. */
export const writeSpelled = (buffer: Buffer, at: number, data: RecordText): number => {
  if (typeof data === 'string') return writeText(buffer, at, data)
  let end = at
  for (let i = 0; i < data.length; i++) {
    const piece = data[i]!
    end = typeof piece === 'object' ? end + piece.bytes.copy(buffer, end) : writePiece(buffer, end, piece)
  }
  return end
}

/** Writes it with the names of its `count` texts; those that the batch does not spell yet it spells. Answers where it ends. */
export const writeSharing = (
  buffer: Buffer,
  at: number,
  data: Exclude<RecordText, string>,
  count: number,
  batch: number,
): number => {
  buffer[at] = count
  let entry = at + 1
  let end = entry + ENTRY_BYTES * count
  let from = end
  for (let i = 0; i < data.length; i++) {
    const piece = data[i]!
    if (typeof piece !== 'object') {
      end = writePiece(buffer, end, piece)
      continue
    }
    const isNew = piece.batch !== batch
    buffer.writeUInt16LE(end - from, entry)
    buffer.writeUInt16LE(isNew ? piece.bytes.length : 0, entry + 2)
    buffer.writeDoubleLE(piece.name, entry + 4)
    entry += ENTRY_BYTES
    if (isNew) {
      piece.batch = batch
      end += piece.bytes.copy(buffer, end)
    }
    from = end
  }
  return end
}

/** Of one generation. A batch spells less, so what it names is in one of two. */
const GENERATION_BYTES = 4 * 1024 * 1024

/** The texts that were spelled lately where somebody reads: more than a batch needs, so that one which is damaged there may be known from before. */
export class KnownTexts {
  #young = new Map<number, Buffer>()
  #old = new Map<number, Buffer>()
  #bytes = 0

  find(name: number): Buffer | undefined {
    const young = this.#young.get(name)
    if (young !== undefined) return young
    const old = this.#old.get(name)
    if (old !== undefined) this.#add(name, old)
    return old
  }

  /** One that is spelled, in bytes that stay. */
  spelled(name: number, buffer: Buffer, from: number, to: number): Buffer {
    const known = this.find(name)
    // The last one counts, should two ever have the same name.
    if (known?.compare(buffer, from, to) === 0) return known
    const text = Buffer.from(buffer.subarray(from, to))
    this.#add(name, text)
    return text
  }

  #add(name: number, text: Buffer): void {
    if (this.#bytes > GENERATION_BYTES) {
      this.#old = this.#young
      this.#young = new Map()
      this.#bytes = 0
    }
    this.#young.set(name, text)
    this.#bytes += text.length
  }
}

/** Such data in the bytes that were scanned, with the texts that it names. */
export class SharingData {
  private constructor(
    private readonly buffer: Buffer,
    private readonly at: number,
    private readonly end: number,
    private readonly texts: readonly Buffer[],
    /** Of all of it, as it is read. */
    readonly bytes: number,
  ) {}

  /** Null: a text is not known, or the lengths are not its own. */
  static read(buffer: Buffer, at: number, end: number, known: KnownTexts): SharingData | null {
    const count = at < end ? buffer[at]! : 0
    let from = at + 1 + ENTRY_BYTES * count
    let bytes = end - from
    if (count === 0 || bytes < 0) return null
    const texts: Buffer[] = []
    for (let i = 0; i < count; i++) {
      const entry = at + 1 + ENTRY_BYTES * i
      const spelled = from + buffer.readUInt16LE(entry)
      const next = spelled + buffer.readUInt16LE(entry + 2)
      if (next > end) return null
      const name = buffer.readDoubleLE(entry + 4)
      const text = next > spelled ? known.spelled(name, buffer, spelled, next) : known.find(name)
      if (text === undefined) return null
      texts.push(text)
      if (next === spelled) bytes += text.length
      from = next
    }
    return new SharingData(buffer, at, end, texts, bytes)
  }

  /** Copies it as it is read; answers where it ends. */
  write(into: Buffer, at: number): number {
    const { buffer, texts } = this
    let from = this.at + 1 + ENTRY_BYTES * texts.length
    let end = at
    for (let i = 0; i < texts.length; i++) {
      const entry = this.at + 1 + ENTRY_BYTES * i
      const own = buffer.readUInt16LE(entry)
      end += buffer.copy(into, end, from, from + own)
      end += texts[i]!.copy(into, end)
      from += own + buffer.readUInt16LE(entry + 2)
    }
    return end + buffer.copy(into, end, from, this.end)
  }

  get text(): string {
    const whole = Buffer.allocUnsafe(this.bytes)
    return whole.toString('utf8', 0, this.write(whole, 0))
  }
}
