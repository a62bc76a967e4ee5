// The part of `gateway verify` that follows outcomes: spools, topics, request log, usage and closed days, side by side.
import { newSums, type OutcomeSums, type Snapshot } from '../../../projections/agreement.ts'
import { activeBuild } from '../../../projections/builds.ts'
import type { Sql } from '../../../projections/database.ts'
import { compareFrames } from '../../../projections/frames/agreement.ts'
import { compareRequests, type RequestsAgreement } from '../../../projections/requests/agreement.ts'
import { compareUsage } from '../../../projections/usage/agreement.ts'
import { requestDaysOf } from '../../composition/read-store.ts'
import type { Config } from '../../config/schema.ts'
import type { EventLog } from '../../log/port.ts'
import { TOPICS } from '../../log/topics.ts'
import { readSpools } from './spools.ts'
import type { Finding } from './verify.ts'

export interface OutcomesToVerify {
  readonly config: Config
  readonly sql: Sql
  readonly log: EventLog
  readonly signal: AbortSignal
}

const HEAD = ['outcomes', 'prompt tokens', 'completion tokens', 'cost (nano-USD)', 'digest'] as const

/** Everything of one moment of the database; the topics as far as it had read them then. */
export const verifyOutcomes = ({ config, sql, log, signal }: OutcomesToVerify): Promise<Finding> =>
  sql.begin(async (transaction) => {
    await transaction.unsafe('set transaction isolation level repeatable read, read only')
    const snapshot: Snapshot = { sql: transaction, log, signal }
    const [requests, frames] = [await activeBuild(transaction, 'requests'), await activeBuild(transaction, 'frames')]
    const title = 'outcomes'
    if (requests === null || frames === null)
      return { title, rows: [], problems: ['the request log was removed meanwhile: run verify again'], warnings: [] }
    const days = requestDaysOf(config)
    const outcomes = await compareRequests(snapshot, requests, days)
    const usage = await compareUsage(snapshot, requests)
    const taken = await compareFrames(snapshot, frames, days)
    const spools = readSpools(config, outcomes.origins, outcomes.trimmed)
    const whole = added(outcomes.stored, outcomes.older)
    const lines: [string, OutcomeSums][] = [
      ...spools.rows,
      [TOPICS.requests.name, outcomes.topic],
      ['request log, of those', outcomes.stored],
      ['request log, older than the topic', outcomes.older],
      ['usage, all days', usage.usage],
      [`${TOPICS.usage.name}, ${usage.closedDays} closed days`, usage.closed],
      ['usage, of those days', usage.usageOfClosed],
    ]
    const rows: [string, string][] = [
      ...table(lines),
      ['records read', `${outcomes.records} of requests, ${taken.records} of operations`],
      ['settled a second time', String(outcomes.second)],
      ['hours counted again', String(usage.hours)],
      [`frames in ${TOPICS.operations.name}`, `${taken.topic.frames}, digest ${taken.topic.digest}`],
      ['frames in the read model', `${taken.stored.frames}, digest ${taken.stored.digest}`],
    ]
    const problems = [
      ...spools.problems,
      ...outcomes.origins.gaps(TOPICS.requests.name, outcomes.trimmed),
      ...outcomes.problems,
      ...unequal(outcomes),
      ...usage.problems,
      ...taken.problems,
    ]
    const fewer = usage.usage.outcomes < whole.outcomes
    if (fewer) problems.push(`usage counts ${usage.usage.outcomes} outcomes, the request log has ${whole.outcomes}`)
    return { title, rows, problems, warnings: [...spools.warnings, ...usage.warnings] }
  }) as Promise<Finding>

/** When no single outcome is reported and the sums differ all the same. */
const unequal = ({ topic, stored, problems }: RequestsAgreement): readonly string[] =>
  problems.length === 0 && topic.digest !== stored.digest
    ? [`the request log has the digest ${written(stored)}, ${TOPICS.requests.name} ${written(topic)}`]
    : []

const added = (one: OutcomeSums, other: OutcomeSums): OutcomeSums => {
  const sums = newSums()
  for (const name of ['outcomes', 'promptTokens', 'completionTokens', 'costNanoUsd'] as const)
    sums[name] = one[name] + other[name]
  return sums
}

const written = ({ digest }: OutcomeSums): string => (digest === null ? '' : digest.toString(16).padStart(16, '0'))

const table = (lines: readonly (readonly [string, OutcomeSums])[]): [string, string][] => {
  const cells = lines.map(([, sums]) => [
    String(sums.outcomes),
    String(sums.promptTokens),
    String(sums.completionTokens),
    String(sums.costNanoUsd),
    written(sums),
  ])
  const widths = HEAD.map((head, at) => Math.max(head.length, ...cells.map((row) => row[at]!.length)))
  const line = (row: readonly string[]) =>
    row
      .map((cell, at) => cell.padStart(widths[at]!))
      .join('  ')
      .trimEnd()
  return [['', line(HEAD)], ...lines.map(([label], at): [string, string] => [label, line(cells[at]!)])]
}
