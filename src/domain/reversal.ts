// A revert: the first event of a decision that takes back another one, beside the ordinary events that restore the
// rows. It has no rows of its own.
import { t } from '../lib/schema/schema.ts'
import type { ControlReader } from './control.ts'
import { type Aggregate, eventType } from './kernel/aggregate.ts'
import type { Decision } from './kernel/decision.ts'

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

/** The decision that this one takes back, or null. */
export const revertedBy = ({ events }: Pick<Decision, 'events'>): string | null => {
  const id = events.find(({ type }) => type === 'decision.reverted')?.data.decision_id
  return typeof id === 'string' ? id : null
}
