// `/admin/v1/audit`: the decisions that counted, newest first.
import type { AuditQueries } from '../../../projections/audit/query.ts'
import { pause } from '../../lib/pause.ts'
import { t } from '../../lib/schema.ts'
import { GatewayError } from '../../wire/errors.ts'
import { MIN_REVISION } from '../revision.ts'
import { ExportPaging, exported } from './export.ts'
import { pageOf } from './list.ts'
import { AUDIT_COLUMNS, AuditRow } from './read-answers.ts'
import { reading } from './read-store.ts'
import { tenantFilter } from './request-filter.ts'
import { type AdminRoute, route } from './route.ts'
import { openWindowOf, Window } from './window.ts'

export interface AuditRouteDeps {
  readonly audit: AuditQueries
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

/** The audit follows the chain by some milliseconds: who names a revision is shown it. */
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
    await pause(POLL_MS)
  }
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
      const pieces = exported(query, filter, AUDIT_COLUMNS, (asked) => deps.audit.pages(asked))
      if (pieces !== null) return { body: null, pieces }
      const { events, total } = await reading(deps.audit.list(filter))
      return { body: { events, total, limit, offset } }
    },
  })

/** Rows for `AdminDeps.furtherRoutes`. */
export const auditRoutes = (deps: AuditRouteDeps): readonly AdminRoute[] => [listEvents(deps)]
