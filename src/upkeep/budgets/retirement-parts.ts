// The content of the records of one retirement, where it does not fit into one record. Pure.
import { type InstanceRetired, MOST_ORPHANED, MOST_RETIRED_ACCOUNTS } from '../../domain/budgets/budget-events.ts'

type Orphaned = InstanceRetired['orphaned'][number]

/** A holder that is retired, with what it may have spent beyond what it reported. */
export interface OpenHolder extends Orphaned {
  /** Log time of its last record. */
  readonly lastMs: number
}

export type RetirementPart = Pick<InstanceRetired, 'before_ms' | 'orphaned' | 'accounts'>

/**
 * Each record closes the accounts that it names, the last one all that are left. Where an account has more such holders
 * than a record can name, several records close it: each those that are silent since before another moment. Null: too
 * many are silent since the same moment.
 */
export const partsOf = (open: readonly OpenHolder[], beforeMs: number): RetirementPart[] | null => {
  if (open.length <= MOST_ORPHANED) return [{ before_ms: beforeMs, orphaned: open.map(orphanedOf) }]
  const parts: RetirementPart[] = []
  let shared: Required<RetirementPart> | null = null
  for (const [account, own] of Map.groupBy(open, (each) => each.account)) {
    const chunks = bySilence(own)
    if (chunks === null) return null
    if (chunks.length > 1) {
      parts.push(...chunks.map((chunk, i) => partOf(account, chunk, chunks[i + 1]?.[0]?.lastMs ?? beforeMs)))
      continue
    }
    if (shared === null || shared.orphaned.length + own.length > MOST_RETIRED_ACCOUNTS) {
      shared = partOf(account, own, beforeMs)
      parts.push(shared)
    } else {
      shared.orphaned.push(...own.map(orphanedOf))
      shared.accounts.push(account)
    }
  }
  return [...parts, { before_ms: beforeMs, orphaned: [] }]
}

const partOf = (account: string, own: readonly OpenHolder[], beforeMs: number): Required<RetirementPart> => ({
  ...{ before_ms: beforeMs, orphaned: own.map(orphanedOf), accounts: [account] },
})

const orphanedOf = ({ account, holder, spent }: OpenHolder): Orphaned => ({ account, holder, spent })

/**
 * The holders in order of their last record, no more together than a record can name; those of one moment are not
 * parted. Null: these are too many.
 */
const bySilence = (own: readonly OpenHolder[]): OpenHolder[][] | null => {
  const chunks: OpenHolder[][] = []
  const sorted = own.toSorted((one, other) => one.lastMs - other.lastMs)
  for (const [, together] of Map.groupBy(sorted, ({ lastMs }) => lastMs)) {
    if (together.length > MOST_ORPHANED) return null
    const chunk = chunks.at(-1)
    if (chunk === undefined || chunk.length + together.length > MOST_ORPHANED) chunks.push(together)
    else chunk.push(...together)
  }
  return chunks
}
