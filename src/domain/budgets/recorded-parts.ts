// What the records of a request say of budgets: what it may come to, and what it charges, one entry for each account.
// Recorded without what says nothing (zeros, the writer's own name); readers get it whole.
import { type Static, t } from '../../lib/schema/schema.ts'
import { type Amount, NO_AMOUNT } from './amount.ts'
import { AccountId } from './budget-events.ts'
import type { LeaseSums } from './lease.ts'

/** What a request may come to, of one account. */
export interface BudgetPart {
  readonly account: string
  /** Who holds the lease: `<instance>.<epoch>`. */
  readonly holder: string
  /** From a lease; false: only counted. */
  readonly leased: boolean
  /** Reserved, or charged. */
  readonly nano_usd: number
  readonly tokens: number
}

/** The charge of a settlement, and the holder's sums of the account that include it. */
export interface BudgetCharge extends BudgetPart {
  /** Billed beyond what was reserved; not part of `nano_usd`. */
  readonly overrun_nano_usd?: number
  /** Absent: settled by another process, after a crash. */
  readonly total?: LeaseSums
}

const maybeCount = (description: string) =>
  t.Optional(t.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description }))

const maybeAmount = (description: string) =>
  t.Optional(
    t.Object(
      { nano_usd: maybeCount('Nano-USD. Absent: 0.'), tokens: maybeCount('Tokens. Absent: 0.') },
      { description: `${description} Absent: nothing.` },
    ),
  )

export const RecordedPart = t.Object({
  account: AccountId,
  holder: t.Optional(
    t.String({
      minLength: 1,
      maxLength: 256,
      description: 'Who holds the lease: `<instance>.<epoch>`. Absent: the writer of the record.',
    }),
  ),
  unleased: t.Optional(t.Literal(true, { description: 'It is only counted. Absent: from a lease.' })),
  nano_usd: maybeCount('Reserved, or charged. Absent: 0.'),
  tokens: maybeCount('Reserved, or charged. Absent: 0.'),
})
export type RecordedPart = Static<typeof RecordedPart>

export const RecordedCharge = t.Composite([
  RecordedPart,
  t.Object({
    overrun_nano_usd: maybeCount('Billed beyond what was reserved; not part of `nano_usd`.'),
    total: t.Optional(
      t.Object(
        {
          spent: maybeAmount('Of the leases, for outcomes that are settled.'),
          counted: maybeAmount('Without a lease: budgets that are not hard, and overruns.'),
          overrun_nano_usd: maybeCount(
            'Of `counted`: what providers billed beyond what was reserved. It closes the account.',
          ),
          overrun_tokens: maybeCount('Of `counted`: tokens beyond what was reserved. They close the account too.'),
        },
        { description: 'Sums of the holder with this outcome. Absent: settled by another process, after a crash.' },
      ),
    ),
  }),
])
export type RecordedCharge = Static<typeof RecordedCharge>

/** `writer`: instance and epoch of the record, `<instance>.<epoch>`. */
export const recordedPart = (part: BudgetPart, writer: string): RecordedPart => {
  const { account, holder, leased, nano_usd, tokens } = part
  const recorded: RecordedPart = { account }
  if (holder !== writer) recorded.holder = holder
  if (!leased) recorded.unleased = true
  if (nano_usd > 0) recorded.nano_usd = nano_usd
  if (tokens > 0) recorded.tokens = tokens
  return recorded
}

export const recordedCharge = (charge: BudgetCharge, writer: string): RecordedCharge => {
  const recorded: RecordedCharge = recordedPart(charge, writer)
  const { overrun_nano_usd: overrun, total } = charge
  if (overrun !== undefined && overrun > 0) recorded.overrun_nano_usd = overrun
  if (total !== undefined) recorded.total = recordedSums(total)
  return recorded
}

const recordedSums = (sums: LeaseSums): NonNullable<RecordedCharge['total']> => {
  const { spent, counted, overrun_nano_usd: overrun, overrun_tokens: overrunTokens } = sums
  const recorded: NonNullable<RecordedCharge['total']> = {}
  const [ownSpent, ownCounted] = [recordedAmount(spent), recordedAmount(counted)]
  if (ownSpent !== null) recorded.spent = ownSpent
  if (ownCounted !== null) recorded.counted = ownCounted
  if (overrun > 0) recorded.overrun_nano_usd = overrun
  if (overrunTokens !== undefined && overrunTokens > 0) recorded.overrun_tokens = overrunTokens
  return recorded
}

const recordedAmount = ({ nano_usd, tokens }: Amount): Partial<Amount> | null => {
  if (nano_usd === 0) return tokens === 0 ? null : { tokens }
  return tokens === 0 ? { nano_usd } : { nano_usd, tokens }
}

export const partOf = (recorded: RecordedPart, writer: string): BudgetPart => ({
  account: recorded.account,
  holder: recorded.holder ?? writer,
  leased: recorded.unleased !== true,
  nano_usd: recorded.nano_usd ?? 0,
  tokens: recorded.tokens ?? 0,
})

export const chargeOf = (recorded: RecordedCharge, writer: string): BudgetCharge => {
  const { overrun_nano_usd: overrun, total } = recorded
  return {
    ...partOf(recorded, writer),
    ...(overrun === undefined ? {} : { overrun_nano_usd: overrun }),
    ...(total === undefined ? {} : { total: sumsOf(total) }),
  }
}

const sumsOf = (total: NonNullable<RecordedCharge['total']>): LeaseSums => ({
  spent: amountOf(total.spent),
  counted: amountOf(total.counted),
  overrun_nano_usd: total.overrun_nano_usd ?? 0,
  ...(total.overrun_tokens === undefined ? {} : { overrun_tokens: total.overrun_tokens }),
})

const amountOf = (recorded: Partial<Amount> | undefined): Amount =>
  recorded === undefined ? NO_AMOUNT : { nano_usd: recorded.nano_usd ?? 0, tokens: recorded.tokens ?? 0 }
