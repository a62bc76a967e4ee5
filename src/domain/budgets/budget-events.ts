// Events of `gateway.budgets.v1`, keyed by tenant: accounts (a budget in one window) and leases on them. Names and
// fields are stored for ever. Every number that a holder reports is the sum since its start, so repeats, losses and
// another order change nothing; only grants are told apart by number.
import { type Static, type TSchema, t } from '../../lib/schema/schema.ts'
import { Amount } from './amount.ts'

const text = (description: string) => t.String({ minLength: 1, maxLength: 256, description })
const count = (description: string) => t.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description })
const nullable = (description: string) =>
  t.Union([t.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }), t.Null()], { description })
const amount = (description: string) => t.Object(Amount.properties, { description })
/** Bound of the accounts in one record, which has to stay below 64 KiB: no request falls under more budgets. */
export const MOST_ACCOUNTS = 64
/** Bound of the accounts with orphans in the record of a retirement. */
export const MOST_ORPHANED = 200
/** Bound of the accounts in each record of a retirement that needs several. */
export const MOST_RETIRED_ACCOUNTS = 128
/**
 * The event version from which on a retirement may have several records: earlier builds would free the accounts that
 * the other records name.
 */
export const RETIRED_IN_PARTS_SINCE = 8
/**
 * The event version from which on copies of terms carry `limits_height`: earlier builds reopen a closed account with
 * every newer copy, and would grant what later builds refuse.
 */
export const LIMITS_HEIGHT_SINCE = 8

export const AccountId = text(
  '`<budget id>/<start of the window>-<its end>`, both Unix milliseconds; no end: for ever.',
)
const Holder = text('Who holds the lease: `<instance>.<epoch>`, one for each start of a process.')
const Instance = text('The process’s name, kept over restarts.')

const terms = {
  height: count(
    'Grows with every decision about the budget. The first copy of a height counts, and a request that names ' +
      'another than the account’s is refused.',
  ),
  limits_height: t.Optional(
    count(
      'Of the last decision that set its limits or how they hold: those that were made since it was closed open ' +
        'it. Left out: `height`.',
    ),
  ),
  limit_nano_usd: nullable('Limit of money; null: none.'),
  limit_tokens: nullable('Limit of tokens; null: none.'),
  soft_limit_nano_usd: t.Optional(
    nullable('Somebody is told when so much is spent; null: nobody. Left out: not known, an earlier build wrote it.'),
  ),
  enforcement: t.Union([t.Literal('hard'), t.Literal('soft'), t.Literal('shadow')], {
    description: '`hard`: spent from leases alone. Else counted and never refused.',
  }),
}

export const AccountOpened = t.Object({
  account: AccountId,
  budget_id: text('The budget.'),
  window_start_ms: t.Integer({ description: 'Unix milliseconds.' }),
  window_end_ms: t.Union([t.Integer(), t.Null()], {
    description: 'Exclusive: nothing is granted from then on. Null: it never ends.',
  }),
  ...terms,
  forgotten: t.Optional(
    t.Boolean({
      description:
        'What was spent in this window before may have expired from the log: it is closed until its limits are set ' +
        'again.',
    }),
  ),
})
export type AccountOpened = Static<typeof AccountOpened>

export const AccountLimited = t.Object({ account: AccountId, ...terms })
export type AccountLimited = Static<typeof AccountLimited>

export const RequestedLease = t.Object({
  account: AccountId,
  height: terms.height,
  need: amount('Less than this is of no use.'),
  want: amount('As much as this is granted when it is there.'),
})
export type RequestedLease = Readonly<Static<typeof RequestedLease>>

export const LeaseRequested = t.Object({
  holder: Holder,
  instance: Instance,
  sequence: t.Integer({
    minimum: 1,
    description:
      'Grows with each request of the holder: one that is not above the last is a repeat and changes nothing.',
  }),
  accounts: t.Array(RequestedLease, {
    minItems: 1,
    maxItems: MOST_ACCOUNTS,
    description: 'All are granted, or none.',
  }),
})
export type LeaseRequested = Static<typeof LeaseRequested>

const tallied = {
  spent: amount('Of the leases, for outcomes that are settled.'),
  counted: amount('Without a lease: budgets that are not hard, and overruns.'),
  overrun_nano_usd: count('Of `counted`: what providers billed beyond what was reserved. It closes the account.'),
  overrun_tokens: t.Optional(
    count('Of `counted`: tokens beyond what was reserved, of a budget that limits tokens. They close the account too.'),
  ),
}

export const LeaseTally = t.Object({
  account: AccountId,
  returned: amount('Given back: it will not be spent.'),
  ...tallied,
})
export type LeaseTally = Readonly<Static<typeof LeaseTally>>

export const LeaseSettled = t.Object({
  holder: Holder,
  instance: Instance,
  accounts: t.Array(LeaseTally, {
    minItems: 1,
    maxItems: MOST_ACCOUNTS,
    description: 'Sums since the holder’s start.',
  }),
})
export type LeaseSettled = Static<typeof LeaseSettled>

export const LeaseClosed = t.Object({
  holder: Holder,
  instance: Instance,
  accounts: t.Array(t.Object({ account: AccountId, ...tallied }), {
    minItems: 1,
    maxItems: MOST_ACCOUNTS,
    description: 'All that the holder ever spent. The rest of its leases is free again.',
  }),
})
export type LeaseClosed = Static<typeof LeaseClosed>

export const StatedHolder = t.Object({
  holder: Holder,
  instance: Instance,
  sequence: count('Of its last request.'),
  granted: amount('Sum of its grants.'),
  returned: amount('As in `lease.settled`.'),
  ...tallied,
  at_ms: t.Integer({ description: 'Log time of its last record.' }),
  closed: t.Boolean({ description: 'It will not spend any more.' }),
  orphaned: t.Optional(
    amount('Its instance was retired: what its open requests may have cost, until it is known what they did.'),
  ),
})

export const AccountStated = t.Composite([
  AccountOpened,
  t.Object({
    offset: count('The state is that before this offset of the partition.'),
    of: t.Integer({
      minimum: 1,
      description: 'So many records state the accounts of the tenant at this offset: together they are all there is.',
    }),
    part: t.Optional(
      count(
        'An account of very many holders is stated in several records: which of them this is, from 0. They differ ' +
          'in `holders` alone.',
      ),
    ),
    carried: amount('Spent in an overlapping window of the same budget, before its window was changed.'),
    past: amount('Spent by holders that are forgotten.'),
    overrun_nano_usd: count('Theirs.'),
    overrun_height: t.Integer({
      minimum: -1,
      description: 'While the height is this one the account is closed by an overrun.',
    }),
    alerted: t.Array(t.Number(), { maxItems: 32, description: 'Thresholds that were told.' }),
    holders: t.Array(StatedHolder, {
      maxItems: 256,
      description: 'Everybody who holds or spent something, and is not forgotten.',
    }),
  }),
])
export type AccountStated = Static<typeof AccountStated>

export const AccountAlerted = t.Object({
  account: AccountId,
  budget_id: text('The budget.'),
  tenant_id: text('The tenant.'),
  threshold: t.Number({ description: 'Share of the limit that was reached; 0: the soft limit was.' }),
  spent: amount('Spent by then.'),
  limit_nano_usd: terms.limit_nano_usd,
  limit_tokens: terms.limit_tokens,
})
export type AccountAlerted = Static<typeof AccountAlerted>

export const InstanceRetired = t.Object({
  instance: Instance,
  before_ms: t.Integer({ description: 'Its holders that were silent since this log time are closed.' }),
  reason: t.Union([t.Literal('silence'), t.Literal('operator')], { description: 'Who gave it up.' }),
  orphaned: t.Array(
    t.Object({
      account: AccountId,
      holder: Holder,
      spent: amount('What it may have spent beyond what it told: its open requests, at what was reserved.'),
    }),
    {
      maxItems: MOST_ORPHANED,
      description: 'What is known to be open, or to be spent and not told.',
    },
  ),
  accounts: t.Optional(
    t.Array(AccountId, {
      maxItems: MOST_RETIRED_ACCOUNTS,
      description:
        'Its holders in these accounts alone: one of several records, of which the last names none. Left out: in ' +
        'all accounts.',
    }),
  ),
})
export type InstanceRetired = Static<typeof InstanceRetired>

export const BUDGET_EVENTS = {
  'account.opened': AccountOpened,
  'account.limited': AccountLimited,
  'account.stated': AccountStated,
  'account.alerted': AccountAlerted,
  'lease.requested': LeaseRequested,
  'lease.settled': LeaseSettled,
  'lease.closed': LeaseClosed,
  'instance.retired': InstanceRetired,
} as const satisfies Record<string, TSchema>

export type BudgetEvent = {
  [Type in keyof typeof BUDGET_EVENTS]: { readonly type: Type; readonly data: Static<(typeof BUDGET_EVENTS)[Type]> }
}[keyof typeof BUDGET_EVENTS]
