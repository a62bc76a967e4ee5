// `/admin/v1/errors`: failed requests, with the count of each code.

import { ErrorsAnswer, REQUEST_COLUMNS } from '../answers/reads.ts'
import { filterOf, pageView, RequestQuery } from '../answers/request-filter.ts'
import { exported } from '../export.ts'
import { reading } from '../read-store.ts'
import { type AdminRoute, route } from '../route.ts'
import type { RequestRouteDeps } from './requests.ts'

/** The lowest status of a failure, unless `status_min` gives another. */
const FAILED_STATUS = 400

/** Rows for `AdminDeps.furtherRoutes`. */
export const errorRoutes = (deps: RequestRouteDeps): readonly AdminRoute[] => [
  route({
    method: 'GET',
    path: '/errors',
    scopes: ['usage:read'],
    summary:
      'Failures, newest first, with a count of each code; those with a status of 400 or more unless ' +
      '`status_min` says otherwise',
    rows: 'errors',
    whole: true,
    query: RequestQuery,
    answer: ErrorsAnswer,
    async handle({ query, principal }) {
      const requested = filterOf(query, principal, deps)
      const filter = { ...requested, statusMin: requested.statusMin ?? FAILED_STATUS }
      const pieces = exported(query, filter, REQUEST_COLUMNS, (wanted) => deps.requests.pages(wanted))
      if (pieces !== null) return { body: null, pieces }
      const { requests: errors, byCode: by_code, total, searchedFromMs } = await reading(deps.requests.failures(filter))
      return { body: { errors, by_code, total, ...pageView(filter, searchedFromMs) } }
    },
  }),
]
