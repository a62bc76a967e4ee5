// The one place that writes CloudEvents envelopes. Everything but control decisions travels in one (structured mode, JSON).
import type { EnvelopeParts, LogRecord } from './port.ts'

/** Where a record of a spool comes from: what makes its id, and what readers drop repeats by. */
export interface Origin {
  readonly instance: string
  /** Random, minted at each process start. */
  readonly epoch: string
  /** From 0, by one, within (instance, epoch, topic). */
  readonly sequence: number
}

/** What a reader gets. `data` is checked against the schema of `type` by whoever reads it. */
export interface Envelope {
  readonly specversion: '1.0'
  readonly id: string
  readonly source: string
  /** `<aggregate>.<past participle>`, e.g. `request.settled`. */
  readonly type: string
  /** Partition key: what the event is about. */
  readonly subject: string
  readonly time: string
  readonly dataschema: string
  readonly instance: string
  readonly epoch: string
  readonly sequence: number
  readonly data: unknown
}

/** Splices an envelope around data that is JSON text already, without parsing it. `id`: for events that have a name of their own (audit). */
export const writeEnvelope = (
  origin: Origin,
  type: string,
  subject: string,
  atMs: number,
  dataJson: string,
  id = `${origin.instance}.${origin.epoch}.${origin.sequence}`,
): string => {
  const { toSubject, toTime, toSequence, toData } = textsOf(origin, type)
  const time = new Date(atMs).toISOString()
  return `${TO_ID}${id}${toSubject}${JSON.stringify(subject)}${toTime}${time}${toSequence}${origin.sequence}${toData}${dataJson}}`
}

const TO_ID = '{"specversion":"1.0","id":"'

/** What stands between id, subject, time, sequence and data: the same for all events of a type. */
const textsOf = ({ instance, epoch }: Omit<Origin, 'sequence'>, type: string) => ({
  toSubject: `","source":"/gatelog/${instance}","type":"${type}","subject":`,
  toTime: ',"time":"',
  toSequence:
    `","datacontenttype":"application/json","dataschema":"/schemas/${type}.json",` +
    `"instance":"${instance}","epoch":"${epoch}","sequence":`,
  toData: ',"data":',
})

/** The same as bytes: up to the number in the id, from there to the second number, and from there to the data. */
class HeadBytes {
  private readonly toNumber: Buffer
  private readonly toData: Buffer
  /** For a subject and a time: records come in runs of a subject, and several within a millisecond. */
  private between: Buffer = Buffer.alloc(0)
  private subject: string | null = null
  private atMs = Number.NaN

  constructor(
    readonly instance: string,
    readonly epoch: string,
    readonly type: string,
  ) {
    this.toNumber = Buffer.from(`${TO_ID}${instance}.${epoch}.`)
    this.toData = Buffer.from(textsOf({ instance, epoch }, type).toData)
  }

  isOf({ instance, epoch }: Origin, type: string): boolean {
    return this.type === type && this.epoch === epoch && this.instance === instance
  }

  /** What the next head needs at most. */
  mostFor(subject: string, atMs: number): number {
    if (subject !== this.subject || atMs !== this.atMs) {
      const { toSubject, toTime, toSequence } = textsOf(this, this.type)
      const time = new Date(atMs).toISOString()
      this.between = Buffer.from(`${toSubject}${JSON.stringify(subject)}${toTime}${time}${toSequence}`)
      this.subject = subject
      this.atMs = atMs
    }
    return this.toNumber.length + this.between.length + this.toData.length + 2 * MOST_DIGITS
  }

  /** Of the record that `mostFor` was asked for. */
  write(into: Buffer, at: number, sequence: number): number {
    let end = writeDigits(into, at + this.toNumber.copy(into, at), sequence)
    end = writeDigits(into, end + this.between.copy(into, end), sequence)
    return end + this.toData.copy(into, end)
  }
}

/** Of a number that is counted. */
const MOST_DIGITS = 16

/** Writes a whole number from 0 to 2^53 - 1; answers where it ends. */
const writeDigits = (into: Buffer, at: number, value: number): number => {
  let digits = 1
  for (let rest = Math.floor(value / 10); rest > 0; rest = Math.floor(rest / 10)) digits++
  let rest = value
  for (let place = at + digits - 1; place >= at; place--) {
    const tenth = Math.floor(rest / 10)
    into[place] = ZERO + rest - 10 * tenth
    rest = tenth
  }
  return at + digits
}
const ZERO = 0x30

/** A process writes events of a handful of types. */
const MOST_HEADS = 16

const SLAB_BYTES = 64 * 1024
/** Memory for a batch, as they usually are. */
const KEPT_SLABS = 16
const CLOSING_BRACE = 0x7d

/** Writes envelopes side by side into larger pieces of memory: one of its own for each record cost more than filling it. */
export class EnvelopeSplicer {
  /** To be written into again; of them, so many are in use. */
  private readonly kept: Buffer[] = []
  private used = 0
  private slab: Buffer = Buffer.alloc(0)
  private at = 0
  private readonly heads: HeadBytes[] = []
  private next = 0

  /** What `writeEnvelope` says, with the bytes of the data copied as they stand: most of a record is neither decoded nor encoded again. */
  splice(
    source: Origin & Pick<EnvelopeParts, 'dataBytes' | 'writeData'>,
    type: string,
    subject: string,
    atMs: number,
  ): Uint8Array {
    const head = this.headOf(source, type)
    const most = head.mostFor(subject, atMs) + source.dataBytes + 1
    if (this.at + most > this.slab.length) this.slab = this.nextSlab(most)
    const { slab, at } = this
    const dataAt = head.write(slab, at, source.sequence)
    const end = source.writeData(slab, dataAt)
    slab[end] = CLOSING_BRACE
    this.at = end + 1
    return slab.subarray(at, end + 1)
  }

  /** Nobody reads what was spliced any more: its memory, which is warm, is written into again. */
  reuse(): void {
    this.used = 0
    this.slab = this.nextSlab(0)
  }

  private nextSlab(most: number): Buffer {
    this.at = 0
    if (most > SLAB_BYTES) return Buffer.allocUnsafeSlow(most)
    const slab = this.kept[this.used] ?? Buffer.allocUnsafeSlow(SLAB_BYTES)
    if (this.used < KEPT_SLABS) this.kept[this.used++] = slab
    return slab
  }

  private headOf(origin: Origin, type: string): HeadBytes {
    for (const head of this.heads) if (head.isOf(origin, type)) return head
    const made = new HeadBytes(origin.instance, origin.epoch, type)
    this.heads[this.next] = made
    this.next = (this.next + 1) % MOST_HEADS
    return made
  }
}

const decoder = new TextDecoder()

/** What an instance or an epoch may be called: readers keep both for as long as they drop repeats. */
const NAME = /^[A-Za-z0-9_-]{1,128}$/
export const isName = (value: unknown): value is string => typeof value === 'string' && NAME.test(value)

/** What readers need of an envelope. */
export type EnvelopeBody = Pick<Envelope, 'type' | 'instance' | 'epoch' | 'sequence' | 'data'>

/** Reads an envelope, or null when the bytes are not one (the reader sets it aside and counts it). */
export const readEnvelope = (bytes: Uint8Array): Envelope | null => {
  try {
    const value = JSON.parse(decoder.decode(bytes)) as Partial<Envelope> | null
    if (value === null || typeof value !== 'object' || value.specversion !== '1.0') return null
    return isBody(value) ? (value as Envelope) : null
  } catch {
    return null
  }
}

const isBody = ({ type, instance, epoch, sequence }: Partial<EnvelopeBody>): boolean =>
  typeof type === 'string' && isName(instance) && isName(epoch) && Number.isSafeInteger(sequence)

/** The same of a record: what its adapter holds apart is not put together and taken apart again. */
export const envelopeOf = (record: Pick<LogRecord, 'value' | 'parts'>): EnvelopeBody | null => {
  const { parts } = record
  if (parts === undefined) return record.value === null ? null : readEnvelope(record.value)
  const { type, instance, epoch, sequence } = parts
  try {
    return isBody(parts) ? { type, instance, epoch, sequence, data: JSON.parse(parts.data) } : null
  } catch {
    return null
  }
}

/** The type stands before anything that a client wrote. */
const HEAD_BYTES = 1_024

/** Asks a record for its type without parsing it: false when it is certainly of another. */
export const typeFilter = (type: string): ((record: LogRecord) => boolean) => {
  const mark = Buffer.from(`"type":"${type}"`)
  return (record) => {
    if (record.parts !== undefined) return record.parts.type === type
    const { value } = record
    if (value === null) return false
    return Buffer.from(value.buffer, value.byteOffset, Math.min(HEAD_BYTES, value.length)).includes(mark)
  }
}
