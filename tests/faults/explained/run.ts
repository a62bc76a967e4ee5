// Sends random requests through a real gateway while its world changes, then has each explained.
import { openDatabase, type Sql } from '../../../projections/database.ts'
import { eventually } from '../../services/eventually.ts'
import { type GatewayProcess, startGateway } from '../../services/gateway.ts'
import { sharedPostgres } from '../../services/postgres.ts'
import { startUpstream } from '../../services/upstream.ts'
import { planOf, type Stored, unequal } from './compare.ts'
import { type Sent, send } from './requests.ts'
import { adminOf, dice, makeWorld } from './world.ts'

export interface ExplainRun {
  readonly sent: number
  readonly planned: number
  readonly equal: number
  /** Refused before there was a plan: a policy, a scope or a key that is unknown or blocked. */
  readonly unplanned: number
  /** Of the planned: how many carried a debug block to be compared with too. */
  readonly said: number
  readonly frames: number
  readonly revisions: number
  readonly strategies: Readonly<Record<string, number>>
  readonly reasons: Readonly<Record<string, number>>
  readonly statuses: Readonly<Record<string, number>>
  /** What was not equal, the first ten. */
  readonly flaws: readonly string[]
  readonly sendMs: number
  readonly explainMs: number
}

const AT_ONCE = 8
/** A change of the world with each so many requests, while others are under way. */
const REQUESTS_A_CHANGE = 12

/** Sends until so many requests were planned, explains all. */
export const explainRandomRequests = async (count: number, seed: number): Promise<ExplainRun> => {
  const database = await sharedPostgres()
  const upstream = startUpstream()
  const gateway = startGateway({
    settings: { database: { url: database.url }, egress: { allow_private: true }, diagnostics: { level: 'error' } },
  })
  const sql = openDatabase({ url: database.url, name: 'gatelog-test', maxConnections: 2, statementTimeoutMs: null })
  try {
    await gateway.until('ready')
    const roll = dice(seed)
    const world = await makeWorld(adminOf(gateway), upstream, roll)
    const sent = new Map<string, Sent>()
    const began = performance.now()
    let begun = 0
    // A tenth is refused before it is planned: a few more are sent than are wanted.
    const wanted = Math.ceil(count * 1.25)
    const client = async (): Promise<void> => {
      while (begun < wanted) {
        begun += 1
        if (begun % REQUESTS_A_CHANGE === 0) await world.change()
        const one = await send(gateway, world, roll)
        sent.set(one.id, one)
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, client))
    const sendMs = performance.now() - began
    const stored = await storedRows(sql, sent.size)
    const began2 = performance.now()
    const tally = await explainAll(gateway, stored, sent, count)
    return { ...tally, sent: sent.size, sendMs, explainMs: performance.now() - began2 }
  } finally {
    await sql.end({ timeout: 1 })
    await gateway.remove()
    await upstream.stop()
    await database.remove()
  }
}

interface StoredRow extends Stored {
  readonly id: string
}

/** All of them, once the worker has read them and the frames, in the order of their arrival. */
const storedRows = async (sql: Sql, count: number): Promise<readonly StoredRow[]> => {
  const [model] = await schemas(sql, 'requests')
  const stored = await eventually(
    `${count} requests in the tables`,
    async () => {
      const rows = await sql.unsafe<{ id: string; admitted: string | null; settled: string }[]>(
        `select d.id, d.admitted, d.settled from "${model}".detail d order by d.at_ms, d.id`,
      )
      return rows.length >= count && rows
    },
    { limitMs: 600_000, everyMs: 100 },
  )
  return stored.map(({ id, admitted, settled }) => ({
    id,
    admitted: admitted === null ? null : JSON.parse(admitted),
    settled: JSON.parse(settled),
  }))
}

const schemas = (sql: Sql, model: string): Promise<string[]> =>
  eventually(`${model} has a build`, async () => {
    const rows = await sql<{ schema_name: string }[]>`
      select schema_name from gatelog.build where model = ${model} and state = 'active'`.catch(() => [])
    return rows.length > 0 && rows.map(({ schema_name }) => schema_name)
  })

/** A frame reaches Postgres by another way than the request: an immediate read may have to be repeated. */
const NOT_YET = /has not been read from the log/
const ATTEMPTS = 100

const explained = async (gateway: GatewayProcess, id: string): Promise<Record<string, unknown>> => {
  for (let attempt = 1; ; attempt++) {
    const answer = await gateway.request(`/admin/v1/requests/${id}/explain`)
    const body = (await answer.json()) as Record<string, unknown>
    const isLate = answer.status === 504 || NOT_YET.test(String(body.not_computed))
    if (!isLate || attempt === ATTEMPTS) return body
    await Bun.sleep(100)
  }
}

type Tally = Omit<ExplainRun, 'sent' | 'sendMs' | 'explainMs'>

const explainAll = async (
  gateway: GatewayProcess,
  rows: readonly StoredRow[],
  sent: ReadonlyMap<string, Sent>,
  limit: number,
): Promise<Tally> => {
  const counts = { planned: 0, equal: 0, unplanned: 0, said: 0 }
  const [strategies, reasons, statuses] = [
    new Map<string, number>(),
    new Map<string, number>(),
    new Map<string, number>(),
  ]
  const [frames, revisions] = [new Set<number>(), new Set<string>()]
  const flaws: string[] = []
  const count = (of: Map<string, number>, name: string) => of.set(name, (of.get(name) ?? 0) + 1)
  const next = rows.values()
  const client = async (): Promise<void> => {
    for (const row of next) {
      const one = sent.get(row.id)!
      const plan = planOf(row)
      if (plan === undefined) {
        counts.unplanned += 1
        continue
      }
      if (counts.planned >= limit) return
      counts.planned += 1
      count(statuses, String(one.status))
      frames.add(plan.frame ?? 0)
      revisions.add(plan.revision)
      for (const [reason, times] of Object.entries(plan.rejected ?? {}))
        for (let i = 0; i < times; i++) count(reasons, reason)
      if (one.said !== null) counts.said += 1
      const body = await explained(gateway, row.id)
      count(strategies, String(body.strategy))
      const wrong = body.error === undefined ? unequal(body, row, one) : [JSON.stringify(body.error)]
      if (wrong.length === 0) counts.equal += 1
      else if (flaws.length < 10)
        flaws.push(`${row.id} ${JSON.stringify(body.differences ?? body.not_computed)}: ${wrong.join('; ')}`)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, client))
  const sorted = (of: Map<string, number>) => Object.fromEntries([...of].sort((a, b) => b[1] - a[1]))
  return {
    ...counts,
    frames: frames.size,
    revisions: revisions.size,
    strategies: sorted(strategies),
    reasons: sorted(reasons),
    statuses: sorted(statuses),
    flaws,
  }
}
