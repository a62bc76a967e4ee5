// `/admin/v1/audit`: the decisions that counted, newest first.
import type { AuditEventView, AuditQueries } from '../../../../projections/audit/query.ts'
import type { ControlReader } from '../../../domain/control.ts'
import { sleep } from '../../../lib/event-loop/sleep.ts'
import { t } from '../../../lib/schema/schema.ts'
import type { LiveState } from '../../../state/port.ts'
import { GatewayError } from '../../../wire/errors.ts'
import { isSuperuser, type Principal } from '../../auth.ts'
import { MIN_REVISION } from '../../revision.ts'
import { AUDIT_COLUMNS, AuditRow } from '../answers/reads.ts'
import { tenantFilter } from '../answers/request-filter.ts'
import { ExportPaging, exported } from '../export.ts'
import { pageOf } from '../list.ts'
import { reading } from '../read-store.ts'
import { type AdminRoute, route } from '../route.ts'
import { openWindowOf, Window } from '../window.ts'

export interface AuditRouteDeps {
  readonly audit: AuditQueries
  readonly live: Pick<LiveState, 'control'>
  nowMs(): number
}

const Text = t.Optional(t.String({ minLength: 1, maxLength: 256 }))
const Query = t.Object({
  ...ExportPaging,
  ...Window,
  tenant_id: Text,
  resource: Text,
  action: Text,
  subject_id: Text,
  actor_id: Text,
})

const SHOWN_WITHIN_MS = 2_000
const POLL_MS = 20

/** The audit follows the chain by some milliseconds: a caller that names a revision waits until the audit shows it. */
const reachShown = async (headers: Headers, { audit }: AuditRouteDeps): Promise<void> => {
  const revision = headers.get(MIN_REVISION)
  if (revision === null) return
  const deadline = performance.now() + SHOWN_WITHIN_MS
  while (!(await reading(audit.shows(revision)))) {
    if (performance.now() > deadline)
      throw new GatewayError('timeout', 'the audit log does not show the revision yet; try again', {
        param: 'X-Gateway-Min-Revision',
        retryAfterS: 1,
      })
    await sleep(POLL_MS)
  }
}

const HIDDEN = '[hidden]'

/**
 * A value of a row, with the keys and tenants of others hidden (`key:<id>`, `tenant:<id>`). Keys of the own tenant stay
 * in their table for good.
 */
const ownOnly = (value: unknown, state: ControlReader, tenantId: string): unknown => {
  if (typeof value === 'string') {
    const [, what, id = ''] = /^(key|tenant):(.+)$/s.exec(value) ?? []
    const owner = what === 'key' ? state.table('keys').get(id)?.tenant_id : id
    return what === undefined || owner === tenantId ? value : `${what}:${HIDDEN}`
  }
  if (value === null || typeof value !== 'object') return value
  if (Array.isArray(value)) return value.map((member) => ownOnly(member, state, tenantId))
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, ownOnly(member, state, tenantId)]))
}

/**
 * Events as the caller may see them: complete with `*`, else without references to other tenants, as in lists of
 * overrides and cache rules.
 */
const redacted = (
  events: readonly AuditEventView[],
  principal: Principal,
  { live }: AuditRouteDeps,
): readonly AuditEventView[] => {
  if (isSuperuser(principal)) return events
  const own = (row: unknown) => ownOnly(row, live.control, principal.tenantId)
  return events.map((event) => ({ ...event, before: own(event.before), after: own(event.after) }))
}

const listEvents = (deps: AuditRouteDeps): AdminRoute =>
  route({
    method: 'GET',
    path: '/audit',
    scopes: ['usage:read'],
    summary: 'Administrative events, newest first',
    rows: 'events',
    query: Query,
    answer: AuditRow,
    async handle({ request, query, principal }) {
      const { limit, offset } = pageOf(query)
      const filter = {
        tenantId: tenantFilter(principal, query.tenant_id),
        resource: query.resource ?? null,
        action: query.action ?? null,
        subjectId: query.subject_id ?? null,
        actorId: query.actor_id ?? null,
        ...openWindowOf(query, deps.nowMs()),
        limit,
        offset,
      }
      await reachShown(request.headers, deps)
      const pieces = exported(query, filter, AUDIT_COLUMNS, async function* (wanted) {
        for await (const events of deps.audit.pages(wanted)) yield redacted(events, principal, deps)
      })
      if (pieces !== null) return { body: null, pieces }
      const { events, total } = await reading(deps.audit.list(filter))
      return { body: { events: redacted(events, principal, deps), total, limit, offset } }
    },
  })

/** Rows for `AdminDeps.furtherRoutes`. */
export const auditRoutes = (deps: AuditRouteDeps): readonly AdminRoute[] => [listEvents(deps)]
