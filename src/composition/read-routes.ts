// The reads of the admin API that read models serve, put together.

import { auditQueries } from '../../projections/audit/query.ts'
import { frameQueries } from '../../projections/frames/query.ts'
import { requestQueries } from '../../projections/requests/query.ts'
import { usageQueries } from '../../projections/usage/query.ts'
import { auditRoutes } from '../http/admin/reads/audit.ts'
import { errorRoutes } from '../http/admin/reads/errors.ts'
import { explainRoutes } from '../http/admin/reads/explain.ts'
import { overviewRoutes } from '../http/admin/reads/overview.ts'
import { requestRoutes } from '../http/admin/reads/requests.ts'
import { tailRoutes } from '../http/admin/reads/tail.ts'
import { usageRoutes } from '../http/admin/reads/usage.ts'
import type { AdminRoute } from '../http/admin/route.ts'
import { wallMs } from '../lib/time/wall-clock.ts'
import type { Analytics } from './analytics.ts'
import type { ControlPlane } from './control-plane.ts'
import type { HealthParts } from './health.ts'

export interface ReadRoutesDeps {
  readonly analytics: Analytics
  readonly control: ControlPlane
  readonly health: Pick<HealthParts, 'healthOf' | 'recentRequests' | 'requestLookup'>
  /** What is stored of an end user. */
  userDigest(tenantId: string, user: string): string
}

export const readRoutes = ({ analytics, control, health, userDigest }: ReadRoutesDeps): readonly AdminRoute[] => {
  const { sql } = analytics
  const { live, catalogue } = control
  const nowMs = wallMs
  const { recentRequests, requestLookup } = health
  const ofRequests = { requests: requestQueries(sql), recentRequests, requestLookup, live, nowMs, userDigest }
  const ofPlans = {
    ...ofRequests,
    frames: frameQueries(sql),
    history: control.history,
    adapterReady: (id: string) => catalogue.adapterReady(id),
  }
  const ofUsage = { usage: usageQueries(sql), live, nowMs }
  return [
    ...requestRoutes(ofPlans),
    ...tailRoutes(ofRequests),
    ...errorRoutes(ofRequests),
    ...explainRoutes(ofPlans),
    ...auditRoutes({ audit: auditQueries(sql), live, nowMs }),
    ...usageRoutes(ofUsage),
    ...overviewRoutes({
      ...ofUsage,
      healthOf: (id) => health.healthOf(id),
      adapterReady: ({ id }) => catalogue.adapterReady(id),
    }),
  ]
}
