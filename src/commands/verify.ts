// `gateway verify`: recomputes the chain and compares everything that was derived from it. Works with the gateway up or down; changes nothing.
import { openDatabase, ping, type Sql } from '../../projections/database.ts'
import { type AuditCheck, buildFigures, openAuditCheck } from '../../projections/verify.ts'
import type { Config } from '../config.ts'
import type { Diagnostics } from '../lib/diagnostics.ts'
import { pause } from '../lib/pause.ts'
import type { EventLog } from '../log/port.ts'
import { openReadStore } from './read-store.ts'
import { verifyChain } from './verify-chain.ts'
import { verifyOutcomes } from './verify-outcomes.ts'

export interface VerifyCommand {
  readonly config: Config
  /** What the decisions of this installation are signed with. */
  readonly macKey: Uint8Array
  readonly log: EventLog
  readonly diagnostics: Diagnostics
  readonly signal: AbortSignal
  readonly print: (line: string) => void
  /** One line for each thing that is wrong, or odd. */
  readonly complain: (line: string) => void
}

/** A part of the report. Not one problem in all of them: exit code 0. */
export interface Finding {
  readonly title: string
  readonly rows: readonly (readonly [label: string, value: string])[]
  readonly problems: readonly string[]
  /** What is odd and harms nothing. */
  readonly warnings: readonly string[]
}

const POSTGRES_WITHIN_MS = 30_000

/** The exit code: 0 only when everything was compared and agrees. */
export const verifyCommand = async (command: VerifyCommand): Promise<number> => {
  const { config, macKey, log, diagnostics, signal, print, complain } = command
  const store = openReadStore(config, diagnostics)
  const sql = openDatabase({ url: store.url, name: 'gatelog-verify', maxConnections: 2, statementTimeoutMs: null })
  try {
    const reachable = await answers(sql, signal)
    // Before the log's end is asked for: what the read models have read is in it.
    const audit = reachable ? await openAuditCheck(sql, macKey).catch(() => null) : null
    const chain = await verifyChain({
      log,
      macKey,
      dataDir: config.data.dir,
      expectedChain: config.log.kafka.chain,
      each: async (records) => audit?.take(records),
      signal,
    })
    const derived = reachable
      ? [await verifyOutcomes({ config, sql, log, signal }), await readModels(sql, log, audit)]
      : [UNREACHABLE]
    const findings = [chain, ...derived]
    for (const finding of findings) tell(finding, print, complain)
    const problems = findings.reduce((sum, finding) => sum + finding.problems.length, 0)
    print(
      problems === 0 ? '\nEverything agrees.' : `\n${problems} ${problems === 1 ? 'thing is' : 'things are'} wrong.`,
    )
    return problems === 0 ? 0 : 1
  } finally {
    await sql.end({ timeout: 1 })
    await store.close()
  }
}

const UNREACHABLE: Finding = {
  title: 'read models',
  rows: [['Postgres', 'does not answer']],
  problems: ['Postgres does not answer: the read models were not compared; start it or mend database.url'],
  warnings: [],
}

/** An embedded Postgres may just be starting. */
const answers = async (sql: Sql, signal: AbortSignal): Promise<boolean> => {
  for (const deadline = performance.now() + POSTGRES_WITHIN_MS; ; ) {
    if (await ping(sql, 2_000)) return true
    if (performance.now() > deadline || signal.aborted) return false
    await pause(200, signal)
  }
}

const readModels = async (sql: Sql, log: EventLog, audit: AuditCheck | null): Promise<Finding> => {
  const title = 'read models'
  if (audit === null) {
    return { title, rows: [['audit', 'none yet']], problems: [], warnings: ['no worker has made the audit log yet'] }
  }
  const rows: [string, string][] = []
  for (const { model, version, topic, state, positions, poison, tables } of await buildFigures(sql)) {
    const read = positions.reduce((sum, { next }) => sum + next, 0)
    let behind = 0
    for (const { partition, next } of positions) behind += Math.max(0, (await log.end(topic, partition)) - next)
    const tip = positions.find((position) => position.tip !== null)?.tip
    const name = `${model} v${version}${state === 'active' ? '' : ` (${state})`}`
    rows.push([name, `${read} records read, ${behind} to come, ${poison} set aside`])
    if (tip !== undefined && tip !== null) rows.push(['  tip', tip])
    for (const table of tables) rows.push([`  ${table.name}`, `${table.rows} rows, digest ${table.digest}`])
  }
  rows.push(['audit rows as the chain gives them', String(audit.equalRows)])
  return { title, rows, problems: audit.problems(), warnings: [] }
}

const tell = (
  { title, rows, problems, warnings }: Finding,
  print: VerifyCommand['print'],
  complain: VerifyCommand['complain'],
) => {
  const width = Math.max(...rows.map(([label]) => label.length))
  print(`\n${title}`)
  for (const [label, value] of rows) print(`  ${label.padEnd(width)}  ${value}`)
  for (const warning of warnings) complain(`warning: ${warning}`)
  for (const problem of problems) complain(problem)
}
