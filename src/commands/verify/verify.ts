// `gateway verify`: recomputes the chain and compares everything that was derived from it. Works with the gateway up or
// down; changes nothing.
import { openDatabase, type Sql, untilAnswer } from '../../../projections/database.ts'
import { databaseProblem, isOfDatabase } from '../../../projections/problems.ts'
import { type AuditCheck, buildFigures, neverBuilt, openAuditCheck } from '../../../projections/verify.ts'
import { openReadStore } from '../../composition/read-store.ts'
import type { Config } from '../../config/schema.ts'
import type { Diagnostics } from '../../lib/process/diagnostics.ts'
import type { EventLog } from '../../log/port.ts'
import { otherCluster } from '../../upkeep/postgres/embedded-postgres.ts'
import { verifyChain } from './chain.ts'
import { verifyKeys } from './keys.ts'
import { verifyOutcomes } from './outcomes.ts'

export interface VerifyCommand {
  readonly config: Config
  /** The key of the decisions' MAC. */
  readonly macKey: Uint8Array
  readonly log: EventLog
  readonly diagnostics: Diagnostics
  readonly signal: AbortSignal
  readonly print: (line: string) => void
  /** One line for each thing that is wrong, or odd. */
  readonly complain: (line: string) => void
}

/** A part of the report. Exit code 0 only without a problem in any of them. */
export interface Finding {
  readonly title: string
  readonly rows: readonly (readonly [label: string, value: string])[]
  readonly problems: readonly string[]
  /** What is odd and harms nothing. */
  readonly warnings: readonly string[]
}

/** The exit code: 0 only when everything was compared and agrees. */
export const verifyCommand = async (command: VerifyCommand): Promise<number> => {
  const { config, macKey, diagnostics, signal } = command
  // Its server would move the tables aside: a start may do that, a check must not.
  const other = config.database.url === null ? otherCluster(config.data.dir) : null
  if (other !== null) return conclude(command, await chainOf(command, null), [ofOtherVersion(other)])
  const store = openReadStore(config, diagnostics)
  const sql = openDatabase({ url: store.url, name: 'gatelog-verify', maxConnections: 2, statementTimeoutMs: null })
  try {
    const error = await untilAnswer(sql, signal)
    const reachable = error === null
    // Before the log's end is read: what the read models have read is in it.
    const audit = reachable ? watched(await openAuditCheck(sql, macKey).catch(() => null)) : null
    const chain = await chainOf(command, audit)
    const derived = reachable ? await derivedFrom(command, sql, audit) : [unreachable(databaseProblem(error))]
    return conclude(command, chain, derived)
  } finally {
    await sql.end({ timeout: 1 })
    await store.close()
  }
}

/** The chain, and the keys of what is sealed in it. Reported as soon as it is known, whatever the later checks find. */
const chainOf = async (
  { config, macKey, log, signal, print, complain }: VerifyCommand,
  audit: Watched | null,
): Promise<readonly Finding[]> => {
  const keysOf = await verifyKeys({ log, signal })
  const { finding: chain, state } = await verifyChain({
    log,
    macKey,
    dataDir: config.data.dir,
    expectedChain: config.log.kafka.chain,
    each: async (records) => audit?.take(records),
    signal,
  })
  printFinding(chain, print, complain)
  // A broken chain gives only a former state, whose secrets may have been replaced since.
  if (chain.problems.length > 0) return [chain]
  const keys = await keysOf(state)
  printFinding(keys, print, complain)
  return [chain, keys]
}

/** Prints what has not been printed, and how many problems there are in all. The exit code. */
const conclude = (
  { print, complain }: VerifyCommand,
  printed: readonly Finding[],
  derived: readonly Finding[],
): number => {
  for (const finding of derived) printFinding(finding, print, complain)
  const problems = [...printed, ...derived].reduce((sum, finding) => sum + finding.problems.length, 0)
  print(problems === 0 ? '\nEverything agrees.' : `\n${problems} ${problems === 1 ? 'thing is' : 'things are'} wrong.`)
  return problems === 0 ? 0 : 1
}

const ofOtherVersion = ({ made, runs, cluster }: NonNullable<ReturnType<typeof otherCluster>>): Finding => ({
  title: 'read models',
  rows: [['Postgres', `${made}, this build runs ${runs}`]],
  problems: [
    `the tables in ${cluster} are of Postgres ${made}, this build runs ${runs}: start a gateway or run \`gateway ` +
      `rebuild\`, which keep them beside and make new ones from the log`,
  ],
  warnings: [],
})

const unreachable = (problem: string): Finding => ({
  title: 'read models',
  rows: [['Postgres', 'cannot be used']],
  problems: [`the read models were not compared, Postgres cannot be used: ${problem}`],
  warnings: [],
})

/**
 * An audit check whose database may fail while the chain is read: it takes nothing more then, and `failure` holds the
 * reason.
 */
interface Watched {
  readonly check: AuditCheck
  readonly failure: { readonly error: unknown } | null
  take: AuditCheck['take']
}

const watched = (check: AuditCheck | null): Watched | null => {
  if (check === null) return null
  let failure: Watched['failure'] = null
  return {
    check,
    get failure() {
      return failure
    },
    async take(records) {
      if (failure !== null) return
      await check.take(records).catch((error) => {
        failure = { error }
      })
    },
  }
}

/** What a worker makes of the log. A refusal or a timeout of Postgres is a finding too. */
const derivedFrom = async (
  { config, log, signal }: VerifyCommand,
  sql: Sql,
  audit: Watched | null,
): Promise<readonly Finding[]> => {
  try {
    const missing = await neverBuilt(sql)
    if (missing.length > 0) return [unbuilt(missing)]
    if (audit === null) return [unbuilt(['audit'])] // or it has read nothing yet
    if (audit.failure !== null) throw audit.failure.error
    return [await verifyOutcomes({ config, sql, log, signal }), await readModels(sql, log, audit.check)]
  } catch (error) {
    if (!isOfDatabase(error)) throw error
    return [unreadable(databaseProblem(error))]
  }
}

const unbuilt = (models: readonly string[]): Finding => ({
  title: 'read models',
  rows: models.map((model) => [model, 'never built']),
  problems: [`the read models were never built (${models.join(', ')}): start a worker or run \`gateway rebuild\``],
  warnings: [],
})

const unreadable = (problem: string): Finding => ({
  title: 'read models',
  rows: [['Postgres', problem]],
  problems: [`the read models cannot be compared: ${problem}; mend Postgres, or run \`gateway rebuild\``],
  warnings: [],
})

const readModels = async (sql: Sql, log: EventLog, audit: AuditCheck): Promise<Finding> => {
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
  return { title: 'read models', rows, problems: audit.problems(), warnings: [] }
}

const printFinding = (
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
