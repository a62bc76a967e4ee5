// `/admin/v1/prices/corrections`: the true price of tokens in a range of time. Booked costs stay as they are; reads of
// usage take `cost=corrected`.
import { closed, Nullable } from '../../../domain/kernel/fields.ts'
import {
  CorrectionPrices,
  CorrectionReason,
  correctionsOf,
  decidePriceCorrection,
  type PriceCorrectionRow,
} from '../../../domain/registry/price-correction.ts'
import type { IdPrefix } from '../../../lib/crypto/ids.ts'
import { t } from '../../../lib/schema/schema.ts'
import type { Commit, LiveState } from '../../../state/port.ts'
import { GatewayError } from '../../../wire/errors.ts'
import { PriceCorrectionView } from '../answers/resources.ts'
import { listed, Paging } from '../list.ts'
import { type AdminRoute, route } from '../route.ts'
import { timestampMs } from '../window.ts'
import { write, writtenRow } from '../write.ts'

export interface PriceDeps {
  readonly live: Pick<LiveState, 'control'>
  readonly commit: Commit
  newId(prefix: IdPrefix): string
}

const Name = t.String({ minLength: 1, maxLength: 256 })
const Moment = t.String({ minLength: 1, maxLength: 64, description: 'RFC 3339 or a date (UTC), a whole minute' })

const CorrectionBody = closed(
  t.Object({
    provider: Name,
    model: Name,
    from: Moment,
    to: Moment,
    input_cost_per_million: CorrectionPrices.properties.input_cost_per_million,
    output_cost_per_million: CorrectionPrices.properties.output_cost_per_million,
    cached_input_cost_per_million: t.Optional(CorrectionPrices.properties.cached_input_cost_per_million),
    reason: t.Optional(Nullable(CorrectionReason)),
  }),
)

const viewOf = ({ number: _, managed_by = 'api', ...row }: PriceCorrectionRow) => ({ ...row, managed_by })

const momentMs = (text: string, param: 'from' | 'to'): number => {
  const ms = timestampMs(text)
  if (ms !== null) return ms
  throw new GatewayError(
    'invalid_request',
    `"${param}" must be RFC 3339 (2026-01-31T12:00:00Z) or a date (2026-01-31)`,
    {
      param,
    },
  )
}

const listCorrections = ({ live }: PriceDeps): AdminRoute =>
  route({
    method: 'GET',
    path: '/prices/corrections',
    scopes: ['usage:read', 'providers:admin'],
    summary: 'List price corrections, the newest first: where two overlap, the newer one holds',
    rows: 'corrections',
    query: t.Object(Paging),
    answer: PriceCorrectionView,
    handle: ({ query }) => ({
      body: listed('corrections', correctionsOf(live.control).reverse(), query, viewOf),
    }),
  })

const correctPrice = ({ commit, newId }: PriceDeps): AdminRoute =>
  route({
    method: 'POST',
    path: '/prices/corrections',
    forAll: true,
    scopes: ['providers:admin'],
    summary: 'Correct the price of a model for a range of time; usage then reads as booked and as corrected',
    body: CorrectionBody,
    status: 201,
    answer: PriceCorrectionView,
    async handle(call) {
      const { from, to, cached_input_cost_per_million = null, reason = null, ...given } = call.body
      const command = {
        ...given,
        do: 'correct',
        id: newId('pcor'),
        fromMs: momentMs(from, 'from'),
        toMs: momentMs(to, 'to'),
        cached_input_cost_per_million,
        reason,
      } as const
      const result = await write(
        commit,
        call,
        () => undefined,
        (state) => decidePriceCorrection(state, command),
      )
      return { body: viewOf(writtenRow(result, 'price_corrections')), revision: result.revision }
    },
  })

export const priceRoutes = (deps: PriceDeps): AdminRoute[] => [listCorrections(deps), correctPrice(deps)]
