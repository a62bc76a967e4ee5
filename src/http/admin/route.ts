// The type of an admin route: a row of data. One runner gives every route the same order (401, 404, 403, validation)
// and the same body rules. The scope tests and the OpenAPI document are made from the table.
import type { Static, TSchema } from '../../lib/schema/schema.ts'
import type { AppliedBy } from '../../upkeep/instances/instances.ts'
import type { Principal } from '../auth.ts'
import type { WriteIntent } from './write.ts'

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/** One authorised, validated request. */
export interface AdminCall<Body = unknown, Query = unknown, Param extends string = never> {
  readonly request: Request
  readonly principal: Principal
  /** Decoded path parameters. */
  readonly params: Readonly<Record<string, string>> & Readonly<Record<Param, string>>
  readonly query: Query
  /**
   * For a response that streams: the caller with its tenant and scopes of this moment; null: it is no longer
   * authorised.
   */
  principalNow(): Principal | null
  /** Checked against the route's schema, without read-only fields. */
  readonly body: Body
  /** Intent of a write, from its headers; reads do not use it. */
  readonly intent: WriteIntent
}

export interface AdminResponse {
  readonly status?: number
  /** Sent as JSON, or its rows in the format of the query. */
  readonly body: unknown
  readonly headers?: Readonly<Record<string, string>>
  /** Columns of the CSV of a list without rows. */
  readonly columns?: readonly string[]
  /**
   * Sent piece by piece in place of the body, in the format of the query. When the first piece fails, the route fails.
   */
  readonly pieces?: AsyncIterable<string>
  /** Id of the decision of a write, sent as `X-Gateway-Revision`. */
  readonly revision?: string
  /**
   * Of a write that is no decision: the counts of `X-Gateway-Applied-By`. When absent: those of the instances that have
   * folded `revision`.
   */
  readonly applied?: AppliedBy
}

export interface AdminRoute {
  readonly method: Method
  /** Below `/admin/v1`, parameters as `:name`: `/keys/:id`. */
  readonly path: string
  /** The caller needs one of these; [] needs only a valid key. `*` always suffices. */
  readonly scopes: readonly string[]
  readonly summary: string
  /**
   * Closed objects (`additionalProperties: false`): an unknown field is 400 and named. A write without a schema takes
   * no body, or `{}`.
   */
  readonly bodySchema: TSchema | null
  /** The body may be absent: an empty one stands for `{}`. */
  readonly bodyOptional: boolean
  /** Parameters of the query, as texts; a read ignores others. */
  readonly querySchema: TSchema | null
  /** Read-only fields that are dropped from the body, so that GET, edit, PUT works. */
  readonly dropped: readonly string[]
  readonly successStatus: number
  /**
   * Response schema, for the document; of a list, the schema of one row. Open: a response may gain fields. Null: an
   * object without promised fields.
   */
  readonly answer: TSchema | null
  /** Member of a list's body that holds the rows; null: no list. A list takes `format=json|csv|ndjson`. */
  readonly rows: string | null
  /** The body of a list has more than `{<rows>, total, limit, offset}`; `answer` is the schema of all of it. */
  readonly whole: boolean
  /** Responds with server-sent events; `answer` is the schema of the data of each. */
  readonly events: boolean
  /** A write that is allowed while the configuration is frozen. */
  readonly whileFrozen: boolean
  /** A write of what holds for every tenant: with `*`, or with a key of the tenant `default`. */
  readonly forAll: boolean
  /** Takes `as_of`. Null: reads of the configuration do (`withPast`). False: this read has no past. */
  readonly past: boolean | null
  handle(call: AdminCall): AdminResponse | Promise<AdminResponse>
}

/** Names of the parameters of a path: `id` of `/keys/:id`. */
type ParamsOf<Path extends string> = Path extends `${string}/:${infer Name}/${infer Rest}`
  ? Name | ParamsOf<`/${Rest}`>
  : Path extends `${string}/:${infer Name}`
    ? Name
    : never

interface RouteSettings<Path extends string, Body extends TSchema, Query extends TSchema> {
  readonly method: Method
  readonly path: Path
  readonly scopes: readonly string[]
  readonly summary: string
  readonly body?: Body
  readonly bodyOptional?: boolean
  readonly query?: Query
  readonly dropped?: readonly string[]
  readonly status?: number
  readonly answer?: TSchema
  readonly rows?: string
  readonly whole?: true
  readonly events?: true
  readonly whileFrozen?: boolean
  readonly forAll?: true
  readonly past?: false
  handle(call: AdminCall<Static<Body>, Static<Query>, ParamsOf<Path>>): AdminResponse | Promise<AdminResponse>
}

/** Fields that a GET returns and a write ignores. */
export const READ_ONLY = ['id', 'created_at', 'updated_at', 'revision', 'managed_by'] as const

/** A route whose handler is typed by its path and its schemas. */
export const route = <Path extends string, Body extends TSchema, Query extends TSchema>(
  settings: RouteSettings<Path, Body, Query>,
): AdminRoute => ({
  method: settings.method,
  path: settings.path,
  scopes: settings.scopes,
  summary: settings.summary,
  bodySchema: settings.body ?? null,
  bodyOptional: settings.bodyOptional ?? false,
  querySchema: settings.query ?? null,
  dropped: [...READ_ONLY, ...(settings.dropped ?? [])],
  successStatus: settings.status ?? 200,
  answer: settings.answer ?? null,
  rows: settings.rows ?? null,
  whole: settings.whole ?? false,
  events: settings.events ?? false,
  whileFrozen: settings.whileFrozen ?? false,
  forAll: settings.forAll ?? false,
  past: settings.past ?? null,
  handle: settings.handle as AdminRoute['handle'],
})
