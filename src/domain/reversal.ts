// That a decision takes back another one: the first event of such a decision, beside the ordinary events that restore the rows. It has no rows of its own.
import { t } from '../lib/schema.ts'
import { type Aggregate, eventType } from './aggregate.ts'
import type { ControlReader } from './control.ts'

export const DecisionReverted = t.Object({
  /** Id of the decision that is taken back. */
  decision_id: t.String({ pattern: '^[0-9a-f]{64}$' }),
})

export const reversal: Aggregate<never, ControlReader> = {
  table: 'reversals',
  indexes: {},
  events: {
    'decision.reverted': eventType({
      schema: DecisionReverted,
      since: 3,
      action: 'revert',
      resource: 'decision',
      subject: (data) => data.decision_id,
    }),
  },
  evolve: () => [],
}
