// What the records of a request say about accounts of budgets: an account and its holder stay the same for long, so that only amounts are written anew. A
// part of records that are written over: 4.5 to 6.5 us of a request in a loop instead of 7.4 to 11 (docs/decisions/0052-records-written-over.md).
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

const MOST_KNOWN = 1_024
/** Of the last ones. */
let known = new Map<string, Account>()

/** Null: it was not met before. What is met once is not worth a template. */
const accountOf = ({ account, holder, leased }: BudgetPart): Account | null => {
  const last = known.get(account)
  if (last !== undefined && last.holder === holder && last.leased === leased) return last
  if (known.size >= MOST_KNOWN) known = new Map()
  known.set(account, { holder, leased, part: null, charge: null })
  return null
}

/** Adds what is reserved of each account, with a comma in front. */
export const partPieces = (pieces: TextPiece[], parts: readonly BudgetPart[]): void => {
  addList(pieces, parts, partJson)
}

/** Adds what each account is charged, with a comma in front. */
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
