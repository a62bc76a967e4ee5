// Amounts of budgets: money and tokens together. Whole numbers, never negative, never above 2^53 - 1.
import { type Static, t } from '../../lib/schema/schema.ts'

const MOST = Number.MAX_SAFE_INTEGER

export const Amount = t.Object(
  {
    nano_usd: t.Integer({ minimum: 0, maximum: MOST, description: 'Nano-USD (1 USD is 1,000,000,000).' }),
    tokens: t.Integer({ minimum: 0, maximum: MOST, description: 'Tokens of prompts and answers.' }),
  },
  { description: 'Money and tokens.' },
)
export type Amount = Readonly<Static<typeof Amount>>

/** Upper bounds of an amount; null: unlimited. */
export interface Limits {
  readonly nano_usd: number | null
  readonly tokens: number | null
}

export const NO_AMOUNT: Amount = Object.freeze({ nano_usd: 0, tokens: 0 })

/** Adding or subtracting nothing returns the same object: most sums of a request are of that kind. */
export const plus = (one: Amount, other: Amount): Amount => {
  if (other === NO_AMOUNT) return one
  if (one === NO_AMOUNT) return other
  return { nano_usd: sum(one.nano_usd, other.nano_usd), tokens: sum(one.tokens, other.tokens) }
}

/** The difference, zero where the other is larger. */
export const minus = (one: Amount, other: Amount): Amount => {
  if (other === NO_AMOUNT || one === NO_AMOUNT) return one
  const nano_usd = rest(one.nano_usd, other.nano_usd)
  const tokens = rest(one.tokens, other.tokens)
  return nano_usd === 0 && tokens === 0 ? NO_AMOUNT : { nano_usd, tokens }
}

/** The sum of one kind. */
export const sum = (one: number, other: number): number => Math.min(MOST, one + other)
export const rest = (one: number, other: number): number => Math.max(0, one - other)

/** The larger of each. */
export const most = (one: Amount, other: Amount): Amount => ({
  nano_usd: Math.max(one.nano_usd, other.nano_usd),
  tokens: Math.max(one.tokens, other.tokens),
})

/** The smaller of each. */
export const least = (one: Amount, other: Amount): Amount => ({
  nano_usd: Math.min(one.nano_usd, other.nano_usd),
  tokens: Math.min(one.tokens, other.tokens),
})

export const isNothing = ({ nano_usd, tokens }: Amount): boolean => nano_usd === 0 && tokens === 0

export const isEqual = (one: Amount, other: Amount): boolean =>
  one.nano_usd === other.nano_usd && one.tokens === other.tokens

/** Whether the amount fits into the room. */
export const fits = (amount: Amount, room: Limits): boolean =>
  (room.nano_usd === null || amount.nano_usd <= room.nano_usd) && (room.tokens === null || amount.tokens <= room.tokens)

/** The part of it that fits into the room. */
export const within = (amount: Amount, room: Limits): Amount => ({
  nano_usd: room.nano_usd === null ? amount.nano_usd : Math.max(0, Math.min(amount.nano_usd, room.nano_usd)),
  tokens: room.tokens === null ? amount.tokens : Math.max(0, Math.min(amount.tokens, room.tokens)),
})
