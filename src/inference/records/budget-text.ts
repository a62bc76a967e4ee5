// The budget members of a request's records as JSON text. An account and its holder stay the same for long, so only the
// amounts are filled into a template (docs/decisions/0052-records-written-over.md).
import type { BudgetCharge, BudgetPart } from '../../domain/budgets/budget-events.ts'
import type { TextPiece } from '../../lib/text/text-pieces.ts'
import { GrowingTemplate, gap } from '../../lib/text/text-template.ts'

/** Templates of one account. */
interface Account {
  readonly holder: string
  readonly leased: boolean
  part: GrowingTemplate | null
  charge: GrowingTemplate | null
}

const MAX_CACHED = 1_024
/**
 * The last accounts that were written, all evicted at the bound. One for the process and not in `deps`: a template
 * depends on its account alone and changes no byte of a record.
 */
const accounts = new Map<string, Account>()

/** Null at the first record of an account, which is not worth a template. */
const accountOf = ({ account, holder, leased }: BudgetPart): Account | null => {
  const cached = accounts.get(account)
  if (cached !== undefined && cached.holder === holder && cached.leased === leased) return cached
  if (accounts.size >= MAX_CACHED) accounts.clear()
  accounts.set(account, { holder, leased, part: null, charge: null })
  return null
}

/** Adds the reserved amounts of each account, with a comma in front. */
export const partPieces = (pieces: TextPiece[], parts: readonly BudgetPart[]): void => {
  addList(pieces, parts, partJson)
}

/** Adds the charged amounts of each account, with a comma in front. */
export const chargePieces = (pieces: TextPiece[], charges: readonly BudgetCharge[]): void => {
  addList(pieces, charges, chargeJson)
}

const addList = <T>(pieces: TextPiece[], list: readonly T[], json: (one: T) => TextPiece): void => {
  for (let i = 0; i < list.length; i++) pieces.push(i === 0 ? ',"budget":[' : ',', json(list[i]!))
  pieces.push(list.length === 0 ? ',"budget":[]' : ']')
}

const partJson = (part: BudgetPart): TextPiece => {
  const account = accountOf(part)
  if (account === null) return JSON.stringify(part)
  account.part ??= new GrowingTemplate(JSON.stringify({ ...part, nano_usd: gap(0), tokens: gap(1) }))
  return account.part.filled([part.nano_usd, part.tokens]) ?? JSON.stringify(part)
}

const chargeJson = (charge: BudgetCharge): TextPiece => {
  const { total } = charge
  const account = accountOf(charge)
  const isPlain = total !== undefined && charge.overrun_nano_usd === undefined && total.overrun_tokens === undefined
  if (account === null || !isPlain) return JSON.stringify(charge)
  const { spent, counted, overrun_nano_usd: overrun } = total
  const values = [
    charge.nano_usd,
    charge.tokens,
    spent.nano_usd,
    spent.tokens,
    counted.nano_usd,
    counted.tokens,
    overrun,
  ]
  account.charge ??= new GrowingTemplate(JSON.stringify(withGaps(charge)))
  return account.charge.filled(values) ?? JSON.stringify(charge)
}

/** In the order of its values. */
const withGaps = (charge: BudgetCharge): BudgetCharge => ({
  ...charge,
  nano_usd: gap(0),
  tokens: gap(1),
  total: {
    spent: { nano_usd: gap(2), tokens: gap(3) },
    counted: { nano_usd: gap(4), tokens: gap(5) },
    overrun_nano_usd: gap(6),
  },
})
