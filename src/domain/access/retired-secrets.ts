// Digests of key texts that worked once and were rotated away or removed with their tenant: settings may still name
// them and must not make them work again. A revoked text stays in the row of its key for as long as the key is listed.
// Only digests are stored, in two separate sorts, so that keys of the API cannot push out the texts of the settings; of
// each sort the newest ones.

import type { ControlReader } from '../control.ts'
import type { RowChange } from '../kernel/tables.ts'
import type { ApiKeyRow } from './api-key.ts'

/** Row of a key text that no longer works. Its id is the SHA-256 digest of the text. */
export interface RetiredTextRow {
  /** Log time of the decision that disabled it. */
  readonly at_ms: number
}

export const RETIRED_TEXTS = ['retired_seeded_texts', 'retired_texts'] as const
/** A bound of what every instance holds in memory, of each of the two sorts: about two megabytes. */
export const MOST_RETIRED = 10_000

/** Table of the texts of a key: one for keys that settings made or gave a text, one for all others. */
const tableOf = ({ seeded_name }: ApiKeyRow): (typeof RETIRED_TEXTS)[number] =>
  seeded_name === undefined ? 'retired_texts' : 'retired_seeded_texts'

const isRetired = ({ before, after }: RowChange): boolean =>
  before !== null && (before as ApiKeyRow).digest !== (after as ApiKeyRow | null)?.digest

/**
 * The rows that record the texts which these changes remove, and the removals that make room for them, oldest first.
 */
export const recordRetired = (
  state: ControlReader,
  changes: readonly RowChange[],
  logAtMs: number,
): readonly RowChange[] => {
  const retired = changes.filter((change) => change.table === 'keys' && isRetired(change))
  if (retired.length === 0) return retired
  const rows = retired.map(({ before }) => before as ApiKeyRow)
  return RETIRED_TEXTS.flatMap((table) => {
    const texts = state.table(table)
    const digests = rows.filter((row) => tableOf(row) === table).map(({ digest }) => digest)
    const fresh = [...new Set(digests)].filter((digest) => texts.get(digest) === undefined).slice(-MOST_RETIRED)
    const made = fresh.map((id): RowChange => ({ table, id, before: null, after: { at_ms: logAtMs } }))
    return [...oldest(state, table, texts.size + fresh.length - MOST_RETIRED), ...made]
  })
}

/** Rows keep the order of their decisions. */
const oldest = (state: ControlReader, table: (typeof RETIRED_TEXTS)[number], count: number): RowChange[] => {
  const gone: RowChange[] = []
  if (count <= 0) return gone
  for (const [id, row] of state.table(table).rows()) {
    gone.push({ table, id, before: row, after: null })
    if (gone.length === count) break
  }
  return gone
}

/** When a text of this digest stopped working, Unix milliseconds; null: no row has this digest. */
export const retiredAtMs = (state: ControlReader, digest: string): number | null =>
  RETIRED_TEXTS.map((table) => state.table(table).get(digest)).find((row) => row !== undefined)?.at_ms ?? null
