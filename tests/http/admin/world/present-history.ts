// A history that knows only the present: its last decision, no earlier time, and the records that a test passes in. The
// real history has separate tests.
import type { ControlState } from '../../../../src/domain/control.ts'
import type { PastRead } from '../../../../src/http/admin/as-of.ts'
import { readPast } from '../../../../src/http/admin/past.ts'
import type { History, LogDetail, Questions } from '../../../../src/state/history/history-port.ts'
import type { LiveState } from '../../../../src/state/port.ts'

/** A record of the log by its id; null for one that there is not. */
export type KnownRecord = (id: string | number) => LogDetail | null

export const presentHistory = (live: LiveState, record: KnownRecord = () => null): History => ({
  query: (async (name: string, ask: unknown) => {
    if (name === 'page') return { entries: [], total: 0 }
    if (name === 'record') return record((ask as Questions['record']['parameters']).id)
    if (name === 'later') return []
    const { moment, read } = structuredClone(ask) as Questions['past']['parameters']
    const { tip } = live.status()
    if ('id' in moment ? moment.id !== tip : moment.atMs < Date.UTC(2026, 0, 1)) return null
    const point = { revision: tip, atMs: 'id' in moment ? Date.UTC(2026, 10, 20) : moment.atMs }
    return { point, reply: await readPast(live.control as ControlState, point, read as PastRead) }
  }) as History['query'],
})
