// The requests that were admitted and not yet settled: a rotation carries them on, and a restart settles them as
// orphaned.

import { IntegerMap } from '../../lib/collections/integer-map.ts'
import { type TextPieces, wholeText } from '../../lib/text/text-pieces.ts'
import type { CarriedFrame } from '../segments/segments.ts'
import type { Appended, RecordId } from './port.ts'

export interface OpenAdmission {
  readonly recordId: RecordId
  /** Partition key of the admission, and of its settlement. */
  readonly subject: string
  readonly atMs: number
  /** The `request.admitted` as JSON text. */
  readonly data: string
  /** Its `request.attempted` and `request.extended`, as JSON texts, in order. */
  readonly attempts: readonly string[]
}

/** A record as it was appended. */
export interface NotedRecord extends Pick<Appended, 'id' | 'sequence'> {
  /** The sequence of the admission that it belongs to, of this process; null: to none. Undefined: the text names it. */
  readonly of: number | null | undefined
  readonly type: string
  readonly subject: string
  readonly atMs: number
  readonly data: TextPieces
  /** Attempts so far of an admission that is open. */
  attempts: readonly TextPieces[]
}

interface Tracked extends OpenAdmission {
  attempts: readonly string[]
  readonly requestId: string
  /** Another open admission of the same request: there should be none. */
  other: Tracked | null
}

export const NO_ATTEMPTS: readonly string[] = []

const ADMISSION = '"admission":'
const ID = '"id":"'

/** The string value after the first `prefix`. Inside JSON strings quotes are escaped, so only real properties match. */
const textAfter = (json: string, prefix: string): string | null => {
  const start = json.indexOf(prefix)
  if (start === -1) return null
  return json.slice(start + prefix.length, json.indexOf('"', start + prefix.length))
}

/**
 * The admission that a settlement names, by its sequence where both are of one process start (`idPrefix`: of the
 * settlement's id). Parses only settlements with such a member: those of refusals have none.
 */
const admissionOf = (json: string, idPrefix: string): RecordId | null => {
  if (!json.includes(ADMISSION)) return null
  const { admission } = JSON.parse(json) as { admission?: unknown }
  if (typeof admission === 'number') return `${idPrefix}${admission}`
  return typeof admission === 'string' ? admission : null
}

/** `<instance>.<epoch>.` of the id of a record. */
const prefixOf = (recordId: RecordId): string => recordId.slice(0, recordId.lastIndexOf('.') + 1)

/** Records that add to the attempts of a request after its admission. */
const isAttempt = (type: string): boolean => type === 'request.attempted' || type === 'request.extended'

const openOf = ({ id, subject, atMs, data, attempts }: NotedRecord): OpenAdmission => ({
  recordId: id,
  subject,
  atMs,
  data: wholeText(data),
  attempts: attempts.map(wholeText),
})

/** Gets every record of the requests topic once it is in the file. */
export class OpenAdmissions {
  private readonly byRecord = new Map<RecordId, Tracked>()
  /** Those of this process, by their sequences: their attempts and settlements name the admission. */
  private readonly own = new IntegerMap<NotedRecord>()
  /** Attempts name the request only. A request is admitted once; should it be twice, both have its attempts. */
  private readonly byRequest = new Map<string, Tracked>()
  /**
   * Until `recovered`: settled by what was read so far. A later head, written before that was durable, may still carry
   * them.
   */
  private readonly settledIds = new Set<RecordId>()

  get size(): number {
    return this.byRecord.size + this.own.size
  }

  /** In the order of the log. */
  list(): OpenAdmission[] {
    const own = this.own.entries().sort(([a], [b]) => a - b)
    return [...this.byRecord.values(), ...own.map(([, record]) => openOf(record))]
  }

  /** A record of this process. Where it names its admission, its text need not be searched. */
  note(record: NotedRecord): void {
    const { of, sequence, type, subject, atMs, data } = record
    if (of === undefined) this.observe(type, record.id, subject, atMs, wholeText(data))
    else if (type === 'request.admitted') this.own.set(sequence, record)
    else if (of === null) return
    else if (type === 'request.settled') this.own.delete(of)
    else if (isAttempt(type)) {
      const open = this.own.get(of)
      if (open !== undefined) open.attempts = [...open.attempts, data]
    }
  }

  observe(type: string, recordId: RecordId, subject: string, atMs: number, data: string): void {
    if (type === 'request.admitted') this.admitted(recordId, subject, atMs, data)
    else if (type === 'request.settled') {
      const admission = admissionOf(data, prefixOf(recordId))
      if (admission !== null) this.settled(admission)
    } else if (isAttempt(type)) {
      let tracked = this.byRequest.get(textAfter(data, ID) ?? '') ?? null
      for (; tracked !== null; tracked = tracked.other)
        if (!tracked.attempts.includes(data)) tracked.attempts = [...tracked.attempts, data]
    }
  }

  /**
   * A settlement that was read at start. Every carried copy of its admission from here on is older. `recordId`: ''
   * where the head of its segment is unreadable.
   */
  settledBefore(recordId: RecordId, data: string): void {
    const admission = admissionOf(data, prefixOf(recordId))
    if (admission === null) return
    this.settledIds.add(admission)
    this.settled(admission)
  }

  /** All records of the start are read. */
  recovered(): void {
    this.settledIds.clear()
  }

  /** The records that the head of the next segment repeats. */
  *carried(): Generator<CarriedFrame> {
    for (const { recordId, subject, atMs, data, attempts } of this.list()) {
      const stamp = `"record_id":${JSON.stringify(recordId)},"at_ms":${atMs}`
      yield { type: 'request.admitted', subject, data: `{${stamp},"data":${data}}` }
      for (const attempt of attempts) yield { type: 'request.attempted', subject, data: `{${stamp},"data":${attempt}}` }
    }
  }

  /** Restores a frame that `carried` wrote. */
  restore({ type, subject, data }: CarriedFrame): void {
    const carried = JSON.parse(data) as { record_id: string; at_ms: number; data: unknown }
    const json = JSON.stringify(carried.data)
    const tracked = this.byRecord.get(carried.record_id)
    if (type === 'request.admitted') {
      // An admission of an earlier segment stays with its attempts: the head that carries it may be torn before
      // theirs.
      if (tracked === undefined) this.admitted(carried.record_id, subject, carried.at_ms, json)
    } else if (tracked?.attempts.includes(json) === false) tracked.attempts = [...tracked.attempts, json]
  }

  private admitted(recordId: RecordId, subject: string, atMs: number, data: string): void {
    this.settled(recordId) // a copy takes the place of the one before
    if (this.settledIds.has(recordId)) return
    const requestId = textAfter(data, ID) ?? recordId
    const other = this.byRequest.get(requestId) ?? null
    const tracked: Tracked = { recordId, subject, atMs, data, requestId, attempts: NO_ATTEMPTS, other }
    this.byRecord.set(recordId, tracked)
    this.byRequest.set(requestId, tracked)
  }

  private settled(recordId: RecordId): void {
    const tracked = this.byRecord.get(recordId)
    if (tracked === undefined) return
    this.byRecord.delete(recordId)
    const newest = this.byRequest.get(tracked.requestId)!
    if (newest !== tracked) {
      let before = newest
      while (before.other !== tracked) before = before.other!
      before.other = tracked.other
    } else if (tracked.other === null) this.byRequest.delete(tracked.requestId)
    else this.byRequest.set(tracked.requestId, tracked.other)
  }
}
