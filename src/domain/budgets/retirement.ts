// Retirement of an instance by an operator: it is dead and its disk is lost. Its leases become free again
// (upkeep/budgets/retirement.ts), except for the recorded spending. If the instance comes back, it continues, and its
// spending is booked then. Names and fields of the event are stored for ever.
import { type Static, t } from '../../lib/schema/schema.ts'
import type { ControlReader } from '../control.ts'
import { type Aggregate, changesOf, eventType, type Stamps } from '../kernel/aggregate.ts'
import type { EventRecord } from '../kernel/decision.ts'
import { Id, Nullable } from '../kernel/fields.ts'
import { Rejection } from '../kernel/rejection.ts'

export const RetirementReason = t.String({ maxLength: 1_024 })

export const InstanceGivenUp = t.Object({ id: Id, reason: Nullable(RetirementReason) })
export type InstanceGivenUp = Static<typeof InstanceGivenUp>

export interface RetirementRow extends Stamps, Readonly<InstanceGivenUp> {
  /** Log time of the decision: it covers starts of the process that were silent since. */
  readonly at_ms: number
}

/** Bound of the rows in the memory of every instance: the oldest are dropped. */
const MOST_ROWS = 1_000

const rows = changesOf<RetirementRow>('retirements')

export const retirement: Aggregate<RetirementRow, ControlReader> = {
  table: 'retirements',
  indexes: {},
  events: {
    'instance.given_up': eventType({
      schema: InstanceGivenUp,
      since: 7,
      action: 'retire',
      resource: 'instance',
      subject: ({ id }) => id,
    }),
  },
  evolve(state, { data }, meta) {
    const { id, reason } = data as InstanceGivenUp
    const table = state.table('retirements')
    const before = table.get(id)
    if (before !== undefined) return rows.changed(id, before, { reason, at_ms: meta.logAtMs }, meta)
    const made = rows.created(id, { id, reason, at_ms: meta.logAtMs }, meta)
    return table.size < MOST_ROWS ? made : [...oldest(state), ...made]
  },
}

const oldest = (state: ControlReader) => {
  let first: RetirementRow | undefined
  for (const [, row] of state.table('retirements').rows())
    if (first === undefined || row.at_ms < first.at_ms || (row.at_ms === first.at_ms && row.id < first.id)) first = row
  return first === undefined ? [] : rows.removed(first.id, first)
}

export interface RetirementCommand {
  readonly id: string
  readonly reason: string | null
  /** Whether the instance has a balance in the log of budgets. */
  readonly holds: boolean
  /** Whether it announces itself, independent of the log of budgets. */
  readonly isLive: boolean
  /** Seconds since its last record there; null: long ago. */
  readonly lastRecordAgoS: number | null
}

/**
 * Throws 404 for an instance without leases, 409 for one that is live or wrote recently: its leases are valid, and it
 * spends from them.
 */
export const decideRetirement = (
  _state: ControlReader,
  { id, reason, holds, isLive, lastRecordAgoS }: RetirementCommand,
): EventRecord[] => {
  if (!holds) throw new Rejection('not_found', `no instance with the id "${id}" holds anything of a budget`)
  if (isLive)
    throw new Rejection(
      'conflict',
      `the instance "${id}" is live: it announces itself. Stop it first, and retire it when it has been silent for ` +
        'a minute and a half',
    )
  if (lastRecordAgoS !== null)
    throw new Rejection(
      'conflict',
      `the instance "${id}" wrote to the log ${lastRecordAgoS} s ago: stop it first, ` +
        'and retire it a minute and a half later',
    )
  return [{ type: 'instance.given_up', data: { id, reason } }]
}
