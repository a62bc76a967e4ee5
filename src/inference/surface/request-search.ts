// Finds one request that may be on its way to the request log: for feedback, and for the reads of one request. Without
// certainty it throws 502, which is retryable, and never a false 404.
import { sleep } from '../../lib/event-loop/sleep.ts'
import type { RecentRequests } from '../../state/indexes/recent-requests.ts'
import { GatewayError } from '../../wire/errors.ts'

/** The request that was found. */
export interface FoundRequest {
  readonly id: string
  readonly requestId: string
  readonly providerId: string | null
  readonly modelId: string | null
}

/** The request log of all instances. Its methods throw when it cannot be read now. */
export interface RequestLookup {
  /** Other processes write to it: the latest request of a label may be theirs. */
  readonly hasOthers: boolean
  /** The request with this id, else the tenant's latest with this label. `foreign`: another tenant's id. Null: none. */
  find(idOrLabel: string, tenantId: string): Promise<FoundRequest | 'foreign' | null>
  /**
   * Whether it has a record of a request with this id, of that time (Unix milliseconds): an outcome, or an admission
   * without one.
   */
  isKnown(id: string, atMs: number): Promise<boolean>
  /** Milliseconds that it is behind the log; null: not known. */
  behindMs(): Promise<number | null>
}

/** Which request a caller looks for. */
export interface RequestQuery {
  readonly idOrLabel: string
  /** Null: of any tenant. */
  readonly tenantId: string | null
  /** When, Unix milliseconds. */
  readonly atMs: number
  /** Aborted when the client disconnects. */
  readonly signal: AbortSignal
  /** The field that names the request, for the error; null: the path. */
  readonly param: string | null
}

/** The fields of a row in the request log that identify its request. */
export interface RequestRow {
  readonly id: string
  readonly tenant_id: string | null
}

/** Reads a row by id, else the tenant's latest with that label (null: of all tenants). */
export type ReadRow<Row extends RequestRow> = (idOrLabel: string, tenantId: string | null) => Promise<Row | null>

export interface SearchDeps {
  readonly recentRequests: Pick<RecentRequests, 'find'>
  readonly requestLookup: RequestLookup
}

export interface RowSearchDeps {
  readonly recentRequests: Pick<RecentRequests, 'find'>
  readonly requestLookup: Pick<RequestLookup, 'isKnown' | 'behindMs'>
}

/** How long a row that may still come is waited for. */
const LOOK_FOR_MS = 2_000
/** Nearly every row comes within a quarter of a second: short waits first, then longer ones. */
const FIRST_WAIT_MS = 50
const LONGEST_WAIT_MS = 400
/**
 * A request answered before the query is in the request log after so long, plus the time that the log is behind: other
 * instances ship theirs meanwhile.
 */
const ARRIVES_MS = 1_000
/** An id that is younger may be on its way from another instance. */
const YOUNG_MS = 60_000
/** A request older than this is in a request log that is less behind the log than that. */
const CURRENT_MS = 10_000
const GATEWAY_ID = /^req_([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

/** When an id of the gateway was made, Unix milliseconds; null for any other text. */
export const createdAtMs = (id: string): number | null => {
  const match = GATEWAY_ID.exec(id)
  return match === null ? null : Number.parseInt(match[1]! + match[2]!, 16)
}

/**
 * The request that feedback is about: from the memory of this process, else from the request log. An id names one
 * request. A label names the latest with it, which only the request log has when other instances serve too, once it has
 * all requests answered before the query. Throws 404, or 502 without certainty.
 */
export const findRequest = async (
  query: RequestQuery & { readonly tenantId: string },
  { recentRequests, requestLookup }: SearchDeps,
): Promise<FoundRequest> => {
  const { idOrLabel, tenantId } = query
  const here = recentRequests.find(idOrLabel, tenantId)
  if (here === 'foreign') throw unknown(query)
  if (here !== null && (here.id === idOrLabel || !requestLookup.hasOthers)) return here
  const createdMs = createdAtMs(idOrLabel)
  return waitFor(query, async (elapsedMs) => {
    // Read before the rows: the log may catch up while they are read.
    const arrived = await hasArrived(elapsedMs, requestLookup)
    const found = await requestLookup.find(idOrLabel, tenantId)
    if (found === 'foreign') throw unknown(query)
    if (found?.id === idOrLabel) return found
    const latest = newerOf(found, here)
    if (latest === null && createdMs !== null) return missingError(query, createdMs, requestLookup)
    if (latest !== null && !requestLookup.hasOthers) return latest
    if (!arrived) return notCertain()
    if (latest === null) throw unknown(query)
    return latest
  })
}

/**
 * The row of a request by id, or by the latest label in the request log. Waits for rows of requests that this process
 * served since, for an id that may be on its way, and for one without an outcome. Throws 404, or 502 when there is no
 * row within two seconds. The errors of `read` are for clients.
 */
export const awaitRow = <Row extends RequestRow>(
  query: RequestQuery,
  read: ReadRow<Row>,
  { recentRequests, requestLookup }: RowSearchDeps,
): Promise<Row> => {
  const { idOrLabel, tenantId } = query
  const createdMs = createdAtMs(idOrLabel)
  return waitFor(query, async () => {
    const row = await ownRow(idOrLabel, tenantId, read)
    if (row === 'foreign') throw unknown(query)
    if (row?.id === idOrLabel) return row
    const here = recentRequests.find(idOrLabel, tenantId)
    if (here !== null && here !== 'foreign' && (row === null || row.id < here.id)) return noOutcomeYet()
    if (row !== null) return row
    if (createdMs === null || here === 'foreign') throw unknown(query)
    return missingError(query, createdMs, requestLookup)
  })
}

/** The row by id of any tenant, else by the tenant's own label. `foreign`: the id is another tenant's. */
export const ownRow = async <Row extends RequestRow>(
  idOrLabel: string,
  tenantId: string | null,
  read: ReadRow<Row>,
): Promise<Row | 'foreign' | null> => {
  const own = await read(idOrLabel, tenantId)
  if (own !== null || tenantId === null || createdAtMs(idOrLabel) === null) return own
  const row = await read(idOrLabel, null)
  if (row?.id !== idOrLabel) return null
  // Between the two reads the row may have come: only the row itself shows its tenant.
  return row.tenant_id === tenantId ? row : 'foreign'
}

/** Ids sort by time. */
const newerOf = (one: FoundRequest | null, other: FoundRequest | null): FoundRequest | null => {
  if (one === null || other === null) return one ?? other
  return one.id < other.id ? other : one
}

/** Whether rows that are read now, this long after the query, include all requests that were answered before it. */
const hasArrived = async (elapsedMs: number, requestLookup: Pick<RequestLookup, 'behindMs'>): Promise<boolean> => {
  if (elapsedMs < ARRIVES_MS) return false
  const behindMs = await requestLookup.behindMs()
  return behindMs !== null && elapsedMs >= ARRIVES_MS + behindMs
}

/**
 * The error for an id of the gateway without a row, if none comes. Throws 404 when none will come, 502 without
 * certainty.
 */
const missingError = async (
  query: RequestQuery,
  createdMs: number,
  requestLookup: Pick<RequestLookup, 'isKnown' | 'behindMs'>,
): Promise<GatewayError> => {
  const ageMs = query.atMs - createdMs
  if (Math.abs(ageMs) <= YOUNG_MS) return notCertain()
  if (ageMs < 0) throw unknown(query) // of a time to come: not an id of the gateway
  // Before the row: the log may catch up while that is read.
  const behindMs = await requestLookup.behindMs()
  if (await requestLookup.isKnown(query.idOrLabel, createdMs)) return noOutcomeYet()
  if (behindMs === null || behindMs > CURRENT_MS) throw notCertain()
  throw unknown(query)
}

/**
 * Looks until something is found, for at most two seconds and as long as the client is connected; then throws the last
 * error that `look` returned. An error that `look` throws ends it, as 502 unless it is for clients.
 */
const waitFor = async <Found extends object>(
  { signal }: Pick<RequestQuery, 'signal'>,
  look: (elapsedMs: number) => Promise<Found | GatewayError>,
): Promise<Found> => {
  const beganMs = performance.now()
  for (let waitMs = FIRST_WAIT_MS; ; waitMs = Math.min(2 * waitMs, LONGEST_WAIT_MS)) {
    const found = await look(performance.now() - beganMs).catch(throwShown)
    if (!(found instanceof GatewayError)) return found
    if (performance.now() - beganMs + waitMs > LOOK_FOR_MS) throw found
    await sleep(waitMs, signal)
    if (signal.aborted) throw new GatewayError('request_canceled', 'the client left')
  }
}

const throwShown = (error: unknown): never => {
  throw error instanceof GatewayError ? error : notCertain(error)
}

const unknown = ({ idOrLabel, param }: RequestQuery): GatewayError =>
  new GatewayError('not_found', `no request has the id or label "${idOrLabel.slice(0, 128)}"`, { param })

const notCertain = (cause?: unknown): GatewayError =>
  new GatewayError('upstream_error', 'it cannot be known now whether this request exists; try again', {
    retryAfterS: 1,
    cause,
  })

const noOutcomeYet = (): GatewayError =>
  new GatewayError('upstream_error', 'the request log has no outcome of this request yet; try again', {
    retryAfterS: 1,
  })
