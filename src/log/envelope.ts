// The one place that writes CloudEvents envelopes. Everything but control decisions travels in one (structured mode, JSON).

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
): string =>
  `{"specversion":"1.0","id":"${id}","source":"/gatelog/${origin.instance}",` +
  `"type":"${type}","subject":${JSON.stringify(subject)},"time":"${new Date(atMs).toISOString()}","datacontenttype":"application/json",` +
  `"dataschema":"/schemas/${type}.json","instance":"${origin.instance}","epoch":"${origin.epoch}","sequence":${origin.sequence},"data":${dataJson}}`

const decoder = new TextDecoder()

/** What an instance or an epoch may be called: readers keep both for as long as they drop repeats. */
const NAME = /^[A-Za-z0-9_-]{1,128}$/
const isName = (value: unknown): value is string => typeof value === 'string' && NAME.test(value)

/** Reads an envelope, or null when the bytes are not one (the reader sets it aside and counts it). */
export const readEnvelope = (bytes: Uint8Array): Envelope | null => {
  try {
    const value = JSON.parse(decoder.decode(bytes)) as Partial<Envelope> | null
    if (value === null || typeof value !== 'object' || value.specversion !== '1.0') return null
    if (typeof value.type !== 'string' || !isName(value.instance) || !isName(value.epoch)) return null
    return Number.isSafeInteger(value.sequence) ? (value as Envelope) : null
  } catch {
    return null
  }
}
