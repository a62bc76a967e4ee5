// What a recovery reports about holders that it must not close yet, written to disk before it reports: a second
// recovery of the spool reports the same, not more.
import { join } from 'node:path'
import { Amount } from '../../domain/budgets/amount.ts'
import { type Static, TypeCompiler, t } from '../../lib/schema/schema.ts'
import { type LocalSpool, replaceDurably } from '../../log/spool/spool.ts'

const NAME = 'orphans-said'

/** What these holders have spent, as it is or was reported to the log. */
export interface ReportedOrphans {
  /** First record of the spool that `spent` does not include. */
  readonly upTo: number
  /** What was spent, by holder, then by account. */
  readonly spent: ReadonlyMap<string, ReadonlyMap<string, Amount>>
}

export const NOTHING_REPORTED: ReportedOrphans = { upTo: 0, spent: new Map() }

const Written = t.Object({
  up_to: t.Integer({ minimum: 0 }),
  spent: t.Array(t.Object({ holder: t.String(), account: t.String(), spent: Amount })),
})
const written = TypeCompiler.Compile(Written)

type Directory = Pick<LocalSpool, 'directory' | 'files'>

/** What was written last; nothing where no file exists, or where it cannot be read. */
export const reportedOrphans = ({ directory, files }: Directory): ReportedOrphans => {
  const path = join(directory, NAME)
  if (files.size(path) === null) return NOTHING_REPORTED
  const noted = parsed(files.readWhole(path).toString('utf8'))
  if (noted === null) return NOTHING_REPORTED
  const byHolder = new Map<string, Map<string, Amount>>()
  for (const { holder, account, spent } of noted.spent) {
    const accounts = byHolder.get(holder) ?? new Map<string, Amount>()
    byHolder.set(holder, accounts.set(account, spent))
  }
  return { upTo: noted.up_to, spent: byHolder }
}

const parsed = (text: string): Static<typeof Written> | null => {
  try {
    const value: unknown = JSON.parse(text)
    return written.Check(value) ? value : null
  } catch {
    return null // nothing that this build can use: as if it did not exist
  }
}

/** Durable when it returns. Replaces the file that was written before. */
export const writeReportedOrphans = ({ directory, files }: Directory, { upTo, spent }: ReportedOrphans): void => {
  const all = [...spent].flatMap(([holder, accounts]) =>
    [...accounts].map(([account, amount]) => ({ holder, account, spent: amount })),
  )
  const text: Static<typeof Written> = { up_to: upTo, spent: all }
  replaceDurably(directory, NAME, `${JSON.stringify(text)}\n`, files)
}
