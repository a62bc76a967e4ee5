// `gateway log restore [--dry-run]`: appends what the control topic lost and this data folder still keeps. Works with
// the gateway up or down.
import { resolve } from 'node:path'
import { isKafka } from '../composition/settings.ts'
import type { Config } from '../config/schema.ts'
import { GENESIS } from '../domain/kernel/decision.ts'
import { checkTopics, ensureTopics, kafkaAccess } from '../log/kafka/kafka.ts'
import type { EventLog } from '../log/port.ts'
import { CONTROL } from '../state/fold.ts'
import { readStoredRecords } from '../state/restore/kept-records.ts'
import { appendTail, planRestore, type RestoreDeps, type RestorePlan } from '../state/restore/restore.ts'

export interface LogRestoreCommand {
  readonly config: Config
  /** The key of the decisions' MAC. */
  readonly macKey: Uint8Array
  readonly log: EventLog
  /** Print what would be appended, write nothing. */
  readonly dryRun: boolean
  readonly signal: AbortSignal
  readonly print: (line: string) => void
  readonly complain: (line: string) => void
}

const DEADLINE_MS = 600_000
/**
 * A writer that has not noticed the loss may append in between; its record does not count, but the tail may have to be
 * compared again.
 */
const TRIES = 3

/** The exit code: 0 when the control topic holds all that this data folder keeps (or, of a dry run, would). */
export const logRestoreCommand = async (command: LogRestoreCommand): Promise<number> => {
  const { config, macKey, log, dryRun, print, complain } = command
  const signal = AbortSignal.any([command.signal, AbortSignal.timeout(DEADLINE_MS)])
  await prepareTopics(command)
  const stored = readStoredRecords(config.data.dir)
  print(`${resolve(config.data.dir)} keeps ${stored.length} records of ${CONTROL}${rangeOf(stored)}`)
  const deps: RestoreDeps = { log, macKey, stored, signal }
  for (let times = 0; times < TRIES; times++) {
    const plan = await planRestore(deps)
    if (plan.kind === 'refused') {
      complain(`nothing was appended: ${plan.reason}`)
      return 1
    }
    if (plan.kind === 'whole') {
      print(`${CONTROL} holds all of them: it ends at ${plan.end} with ${plan.tip}`)
      if (times > 0) {
        print('Gateways that are up notice within minutes; start again those that refused to.')
        print('What was appended again has a new log time: `gateway rebuild audit` gives it to the audit log too.')
      }
      return 0
    }
    print(described(plan))
    if (dryRun) return 0
    await appendTail(deps, plan.tail)
  }
  complain('the tail was appended and does not count: another writer came between; stop the gateways and run it again')
  return 1
}

/** A topic that was deleted is made again, but no chain is started in it. */
const prepareTopics = async ({ config, dryRun, complain }: LogRestoreCommand): Promise<void> => {
  if (!isKafka(config)) return
  const { kafka, retention_hours: retentionHours } = config.log
  const options = { ...kafkaAccess(kafka, 'restore'), partitions: kafka.partitions, retentionHours }
  const { warnings } = await (dryRun ? checkTopics(options) : ensureTopics(options))
  for (const warning of warnings) complain(`warning: ${warning}`)
}

const rangeOf = (stored: readonly { readonly offset: number }[]): string =>
  stored.length === 0 ? '' : `, from offset ${stored[0]!.offset} to ${stored.at(-1)!.offset}`

const described = ({ end, tip, tail, decisions, newTip }: Extract<RestorePlan, { kind: 'lost' }>): string => {
  const after = tip === GENESIS ? 'it is empty' : `it ends at ${end} with ${tip}`
  return `${CONTROL} lost ${tail.length} records, ${decisions} decisions (${after}); the last one is ${newTip}`
}
