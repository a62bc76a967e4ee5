// `gateway topics [--init]`: makes and checks the topics on Kafka, starts the chain in an empty control topic, prints
// the ACLs that are needed.

import { macKeyBeside } from '../composition/installation.ts'
import { openDiagnostics } from '../composition/settings.ts'
import { type Config, masterKeysOf } from '../config/schema.ts'
import {
  aclCommands,
  checkTopics,
  ensureTopics,
  kafkaAccess,
  kafkaLog,
  type TopicRow,
  type TopicsReport,
} from '../log/kafka/kafka.ts'
import { LogUnavailable, TopicMisconfigured } from '../log/port.ts'
import { TOPICS } from '../log/topics.ts'
import { readChainWitness } from '../state/chain-witness.ts'
import { MasterKeyMissing } from '../state/data-keys/master-keys.ts'
import { startChain } from '../state/live/genesis.ts'
import { ControlLogRefused } from '../state/live/guards.ts'

export interface TopicsCommand {
  readonly config: Config
  /** Make what is missing and start the chain if there is none. */
  readonly init: boolean
  readonly print: (line: string) => void
  /** For errors and for what is less safe than it should be. */
  readonly complain: (line: string) => void
  readonly nowMs: () => number
  readonly newChainId: () => string
}

/** The exit code: 0 only when every topic is right and the control topic holds a chain. */
export const topicsCommand = async (command: TopicsCommand): Promise<number> => {
  const { config, init, print, complain } = command
  const { kafka, retention_hours: retentionHours } = config.log
  if (kafka.brokers.length === 0) {
    complain('log.kafka.brokers is not set: the embedded log has no topics to make or check')
    return 1
  }
  const options = { ...kafkaAccess(kafka, 'topics'), partitions: kafka.partitions, retentionHours }
  try {
    const report = await (init ? ensureTopics(options) : checkTopics(options))
    for (const line of table(report.rows)) print(line)
    for (const warning of report.warnings) complain(`warning: ${warning}`)
    const chain = await (init ? initChain(command, report) : chainProblem(command))
    print('\nACLs, where the brokers check them (control and keys are for gateways alone):')
    for (const line of aclCommands(kafka.brokers[0]!)) print(line)
    if (chain.ok) print(`\n${chain.line}`)
    else complain(chain.line)
    return chain.ok ? 0 : 1
  } catch (error) {
    if (!isExpected(error)) throw error
    complain(error.message)
    return 1
  }
}

const isExpected = (error: unknown): error is Error =>
  [TopicMisconfigured, LogUnavailable, ControlLogRefused, MasterKeyMissing].some((kind) => error instanceof kind)

interface ChainLine {
  readonly ok: boolean
  readonly line: string
}

const INIT_DEADLINE_MS = 30_000

const initChain = async (command: TopicsCommand, { partitions }: TopicsReport): Promise<ChainLine> => {
  const { config, nowMs, newChainId } = command
  if (masterKeysOf(config) === null)
    return { ok: false, line: 'security.master_key is not set: the chain cannot be started' }
  const log = kafkaLog(kafkaAccess(config.log.kafka, 'topics'))
  try {
    const before = readChainWitness(config.data.dir)
    if (before !== null && (await log.end(TOPICS.control.name, 0)) === 0) {
      const line =
        `${TOPICS.control.name} is empty, but data.dir belongs to the chain ${before}: run \`gateway ` +
        `log restore\`, or name another data.dir (GATEWAY_DATA_DIR) to begin a new chain`
      return { ok: false, line }
    }
    const signal = AbortSignal.timeout(INIT_DEADLINE_MS)
    const macKey = await macKeyBeside({ config, log, diagnostics: openDiagnostics(config), signal, waits: true })
    const { chainId, started } = await startChain({ log, macKey, chainId: newChainId(), nowMs, partitions, signal })
    const what = started ? 'the chain is started' : 'the chain was started before'
    return { ok: true, line: `${what}: ${chainId} (log.kafka.chain may name it, then no other is accepted)` }
  } finally {
    await log.close()
  }
}

const chainProblem = async ({ config }: TopicsCommand): Promise<ChainLine> => {
  const log = kafkaLog(kafkaAccess(config.log.kafka, 'topics'))
  try {
    const records = await log.end(TOPICS.control.name, 0)
    const line = `${TOPICS.control.name} holds ${records} records`
    return records > 0
      ? { ok: true, line }
      : { ok: false, line: `${TOPICS.control.name} is empty: run \`gateway topics --init\` once` }
  } finally {
    await log.close()
  }
}

const HEADINGS = ['topic', 'partitions', 'replicas', 'in sync', 'cleanup', 'kept', '']

/** Columns of equal width, the headings first. */
const table = (rows: readonly TopicRow[]): string[] => {
  const lines = [HEADINGS, ...rows.map(cells)]
  const widths = HEADINGS.map((_, column) => Math.max(...lines.map((line) => line[column]!.length)))
  return lines.map((line) =>
    line
      .map((cell, column) => cell.padEnd(widths[column]!))
      .join('  ')
      .trimEnd(),
  )
}

const cells = (row: TopicRow): string[] => [
  row.name,
  String(row.partitions),
  String(row.replication),
  String(row.minInSync),
  row.cleanup,
  row.cleanup === 'compact' ? 'last of each key' : kept(row.retentionMs),
  row.created ? 'made' : '',
]

const kept = (ms: number): string => (ms === -1 ? 'for ever' : `${Math.round(ms / 3_600_000)} h`)
