// Writes the CloudEvents envelopes (structured mode, JSON). Every record except control decisions has one.
import type { LogRecord } from './port.ts'

/** The origin of a record of a spool: it makes up its id, and readers drop repeats by it. */
export interface Origin {
  readonly instance: string
  /** Random, minted at each process start. */
  readonly epoch: string
  /** From 0, by one, within (instance, epoch, topic). */
  readonly sequence: number
}

/** What a reader gets. The consumer checks `data` against the schema of `type`. */
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

/**
 * Puts an envelope around data that is JSON text, without parsing it. `id`: for events with an id of their own
 * (audit).
 */
export const writeEnvelope = (
  origin: Origin & { readonly id?: string },
  type: string,
  subject: string,
  atMs: number,
  dataJson: string,
): string => {
  const { id = `${origin.instance}.${origin.epoch}.${origin.sequence}` } = origin
  const { toId, toSubject, toTime, toSequence, toData } = new EnvelopeTexts(origin, type)
  const time = new Date(atMs).toISOString()
  const head = `${toId}${id}${toSubject}${JSON.stringify(subject)}${toTime}${time}`
  return `${head}${toSequence}${origin.sequence}${toData}${dataJson}}`
}

/** The text before id, subject, time, sequence and data: equal in all envelopes of a type. */
export class EnvelopeTexts {
  readonly toId = '{"specversion":"1.0","id":"'
  readonly toSubject: string
  readonly toTime = ',"time":"'
  readonly toSequence: string
  readonly toData = ',"data":'

  constructor({ instance, epoch }: Omit<Origin, 'sequence'>, type: string) {
    this.toSubject = `","source":"/gatelog/${instance}","type":"${type}","subject":`
    this.toSequence =
      `","datacontenttype":"application/json","dataschema":"/schemas/${type}.json",` +
      `"instance":"${instance}","epoch":"${epoch}","sequence":`
  }
}

const decoder = new TextDecoder()

/** Form of the names of instances and epochs: readers store both for as long as they drop repeats. */
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

/** The same of a record: the parts of an adapter that stores them apart are used as they are. */
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

/** The type precedes all text that a client wrote. */
const HEAD_BYTES = 1_024

/** Tests the type of a record without parsing it: false when it is certainly another one. */
export const typeFilter = (type: string): ((record: LogRecord) => boolean) => {
  const mark = Buffer.from(`"type":"${type}"`)
  return (record) => {
    if (record.parts !== undefined) return record.parts.type === type
    const { value } = record
    if (value === null) return false
    return Buffer.from(value.buffer, value.byteOffset, Math.min(HEAD_BYTES, value.length)).includes(mark)
  }
}
