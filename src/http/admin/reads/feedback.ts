// `/admin/v1/feedback`: ratings of answers by clients, newest first.
import type { FeedbackQueries } from '../../../../projections/feedback/query.ts'
import type { ControlReader } from '../../../domain/control.ts'
import { FeedbackGiven } from '../../../domain/events/feedback.ts'
import { Nullable } from '../../../domain/kernel/fields.ts'
import { t } from '../../../lib/schema/schema.ts'
import { Moment } from '../answers/health.ts'
import { tenantFilter } from '../answers/request-filter.ts'
import { Paging, pageOf } from '../list.ts'
import { reading } from '../read-store.ts'
import { type AdminRoute, route } from '../route.ts'
import { Window, windowOf } from '../window.ts'

export interface FeedbackRouteDeps {
  readonly feedback: FeedbackQueries
  /** Current names of providers and models. */
  readonly live: { readonly control: ControlReader }
  nowMs(): number
}

const Text = t.Optional(t.String({ minLength: 1, maxLength: 256 }))

const { at_ms: _, ...given } = FeedbackGiven.properties
/** One feedback of a list: the event, with current names. */
export const FeedbackRow = t.Object(
  {
    ...given,
    provider: Nullable(t.String({ description: 'its name; null: not known, or gone since' })),
    model: Nullable(t.String({ description: 'its name in the registry, likewise' })),
    created_at: Moment,
  },
  { title: 'Feedback' },
)

/** Rows for `AdminDeps.furtherRoutes`. */
export const feedbackRoutes = ({ feedback, live, nowMs }: FeedbackRouteDeps): readonly AdminRoute[] => [
  route({
    method: 'GET',
    path: '/feedback',
    scopes: ['usage:read'],
    summary: 'Feedback on answers, newest first',
    answer: FeedbackRow,
    rows: 'feedback',
    query: t.Object({
      ...Paging,
      ...Window,
      tenant_id: Text,
      request_id: Text,
      provider_id: Text,
      model_id: Text,
      metric: Text,
    }),
    async handle({ query, principal }) {
      const page = pageOf(query)
      const { feedback: rows, total } = await reading(
        feedback.list({
          tenantId: tenantFilter(principal, query.tenant_id),
          ...windowOf(query, nowMs()),
          requestId: query.request_id ?? null,
          providerId: query.provider_id ?? null,
          modelId: query.model_id ?? null,
          metric: query.metric ?? null,
          ...page,
        }),
      )
      const { control } = live
      const shown = rows.map(({ request, at_ms, ...row }) => ({
        ...row,
        /** The gateway's own unique id; `request_id` may be the client's label. */
        request,
        provider: row.provider_id === null ? null : (control.table('providers').get(row.provider_id)?.name ?? null),
        model: row.model_id === null ? null : (control.table('models').get(row.model_id)?.name ?? null),
        created_at: new Date(at_ms).toISOString(),
      }))
      return { body: { feedback: shown, total, ...page } }
    },
  }),
]
