// Looking for one request that may be on its way to the request log. What is not known now is 502 and retryable, never a false 404.
import { pause } from '../lib/pause.ts'
import type { ServedRequests } from '../state/served.ts'
import { GatewayError } from '../wire/errors.ts'

/** A request that somebody means. */
export interface FoundRequest {
  readonly id: string
  readonly requestId: string
  readonly providerId: string | null
  readonly modelId: string | null
}

/** The request log of all instances. What is asked of it throws when it cannot be read now. */
export interface RequestLookup {
  /** Other processes write to it: the latest of a label may be theirs. */
  readonly hasOthers: boolean
  /** By id, else the tenant's latest with that label. `foreign`: the id is another tenant's. Null: not there. */
  find(idOrLabel: string, tenantId: string): Promise<FoundRequest | 'foreign' | null>
  /** How far it is behind the log, milliseconds; null: that cannot be told. */
  behindMs(): Promise<number | null>
}

/** Who asks for which request. */
export interface Asked {
  readonly idOrLabel: string
  readonly tenantId: string
  /** When, Unix milliseconds. */
  readonly atMs: number
  /** Aborted when the client leaves. */
  readonly signal: AbortSignal
  /** What names the request, for the error; null: the path. */
  readonly param: string | null
}

export interface SearchDeps {
  readonly served: Pick<ServedRequests, 'find'>
  readonly requestLookup: RequestLookup
}

/** How long is looked for what may come. */
const LOOK_FOR_MS = 2_000
/** Rows come within a quarter of a second, nearly always: soon again at first, then less often. */
const FIRST_PAUSE_MS = 50
const LONGEST_PAUSE_MS = 400
/** What was answered before a question is in the request log after so long, and as much longer as that is behind: others ship what they served meanwhile. */
const ARRIVES_MS = 1_000
/** An id that is younger may be on its way from another instance. */
const YOUNG_MS = 60_000
/** An id that is not young has been admitted for longer than this: a request log that is closer to the log has it. */
const CURRENT_MS = 10_000
const OUR_ID = /^req_([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

/** When an id of ours was made, Unix milliseconds; null for anything else. */
export const bornAtMs = (id: string): number | null => {
  const match = OUR_ID.exec(id)
  return match === null ? null : Number.parseInt(match[1]! + match[2]!, 16)
}

/**
 * The request that feedback is about: of this process's memory, else of the request log. An id is of one request; a label of the latest, which only the request
 * log knows where others serve too, once what they answered before the question has come to it. Throws 404, or 502 when it cannot be known.
 */
export const requestMeant = async (asked: Asked, { served, requestLookup }: SearchDeps): Promise<FoundRequest> => {
  const { idOrLabel, tenantId } = asked
  const here = served.find(idOrLabel, tenantId)
  if (here === 'foreign') throw unknown(asked)
  if (here !== null && (here.id === idOrLabel || !requestLookup.hasOthers)) return here
  const bornMs = bornAtMs(idOrLabel)
  return lookedFor(asked, async (elapsedMs) => {
    const found = await requestLookup.find(idOrLabel, tenantId)
    if (found === 'foreign') throw unknown(asked)
    if (found?.id === idOrLabel) return found
    const latest = newerOf(found, here)
    if (latest === null && bornMs !== null) return missing(asked, bornMs, requestLookup)
    if (latest !== null && !requestLookup.hasOthers) return latest
    if (!(await hasArrived(elapsedMs, requestLookup))) return null
    if (latest === null) throw unknown(asked)
    return latest
  })
}

/** Ids are in the order of time. */
const newerOf = (one: FoundRequest | null, other: FoundRequest | null): FoundRequest | null => {
  if (one === null || other === null) return one ?? other
  return one.id < other.id ? other : one
}

/** Whether rows that were read this long after the question tell of all that was answered before it. */
const hasArrived = async (elapsedMs: number, requestLookup: Pick<RequestLookup, 'behindMs'>): Promise<boolean> => {
  if (elapsedMs < ARRIVES_MS) return false
  const behindMs = await requestLookup.behindMs()
  return behindMs !== null && elapsedMs >= ARRIVES_MS + behindMs
}

/** What is to be said of an id of ours that the request log does not have. Null: it may come. Throws 404 when there is none, 502 when that cannot be known. */
const missing = async (asked: Asked, bornMs: number, requestLookup: Pick<RequestLookup, 'behindMs'>): Promise<null> => {
  const ageMs = asked.atMs - bornMs
  if (Math.abs(ageMs) <= YOUNG_MS) return null
  if (ageMs < 0) throw unknown(asked) // of a time to come: nobody made it
  const behindMs = await requestLookup.behindMs()
  if (behindMs === null || behindMs > CURRENT_MS) throw notKnownYet()
  throw unknown(asked)
}

/** Looks again until something is found (null: not yet), for two seconds at most and as long as the client stays. Throws what `look` throws, as 502 unless it is for clients. */
const lookedFor = async <Found>(
  { signal }: Pick<Asked, 'signal'>,
  look: (elapsedMs: number) => Promise<Found | null>,
): Promise<Found> => {
  const beganMs = performance.now()
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
    const found = await look(performance.now() - beganMs).catch(shown)
    if (found !== null) return found
    if (performance.now() - beganMs + pauseMs > LOOK_FOR_MS) throw notKnownYet()
    await pause(pauseMs, signal)
    if (signal.aborted) throw new GatewayError('request_canceled', 'the client left')
  }
}

const shown = (error: unknown): never => {
  throw error instanceof GatewayError ? error : notKnownYet(error)
}

const unknown = ({ idOrLabel, param }: Asked): GatewayError =>
  new GatewayError('not_found', `no request has the id or label "${idOrLabel.slice(0, 128)}"`, { param })

const notKnownYet = (cause?: unknown): GatewayError =>
  new GatewayError('upstream_error', 'it cannot be known now whether this request exists; try again', {
    retryAfterS: 1,
    cause,
  })
