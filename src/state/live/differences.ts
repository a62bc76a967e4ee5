// What leads from one state to another, when a fold is replaced by one that read the log again.

import { RETIRED_TEXTS } from '../../domain/access/retired-secrets.ts'
import type { ControlState } from '../../domain/control.ts'
import { canonicalJson, type RowChange } from '../../domain/kernel/tables.ts'

const UNFOLLOWED: readonly string[] = ['causes', ...RETIRED_TEXTS]

/** As row changes, so that the hot indexes follow as they follow the fold. */
export const differences = (from: ControlState, to: ControlState): RowChange[] => {
  const changes: RowChange[] = []
  for (const { name } of to.tables()) {
    if (UNFOLLOWED.includes(name)) continue
    const [before, after] = [from.raw(name), to.raw(name)]
    for (const [id, row] of before.rows()) {
      if (after.get(id) === undefined) changes.push({ table: name, id, before: row, after: null })
    }
    for (const [id, row] of after.rows()) {
      const known = before.get(id)
      if (known === undefined || canonicalJson(known) !== canonicalJson(row))
        changes.push({ table: name, id, before: known ?? null, after: row })
    }
  }
  return changes
}
