// Puts together what decides and what is decided: the live fold, the commit queue, data keys, and the indexes that
// follow.

import { existsSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { type Config, settingMs } from '../config/schema.ts'
import { CHAIN_ROW } from '../domain/chain.ts'
import { PAST_READER } from '../http/admin/past.ts'
import { newId } from '../lib/crypto/ids.ts'
import { waitBriefly, waitUnlessUnreachable } from '../lib/event-loop/wait-with-timeout.ts'
import type { Diagnostics } from '../lib/process/diagnostics.ts'
import { wallMs } from '../lib/time/wall-clock.ts'
import { checkTopics, kafkaAccess } from '../log/kafka/kafka.ts'
import { LOG_MODULE, openLog } from '../log/open-log.ts'
import { type EventLog, LogUnavailable } from '../log/port.ts'
import { TOPICS } from '../log/topics.ts'
import { KINDS } from '../providers/kinds.ts'
import { readChainWitness } from '../state/chain-witness.ts'
import { type CommitQueue, createCommit } from '../state/commit/queue.ts'
import { type ContentKeys, createContentKeys } from '../state/data-keys/content-keys.ts'
import { openDataKeys } from '../state/data-keys/data-keys.ts'
import type { InstallationKeys } from '../state/data-keys/installation-keys.ts'
import type { ReadMasterKeys } from '../state/data-keys/master-keys.ts'
import type { DataKeyStore } from '../state/data-keys/store.ts'
import { startDataKeySweep } from '../state/data-keys/sweep.ts'
import type { History } from '../state/history/history-port.ts'
import { startSnapshots } from '../state/history/snapshot-thread.ts'
import { openKeyIndex } from '../state/indexes/api-keys.ts'
import { type OpenCatalogue, openCatalogue } from '../state/indexes/catalogue.ts'
import { createSteering } from '../state/indexes/live-steering.ts'
import type { Steering } from '../state/indexes/steering.ts'
import { startChain } from '../state/live/genesis.ts'
import { openLiveState } from '../state/live/live.ts'
import type { LiveChain } from '../state/live-chain.ts'
import type { KeyIndex } from '../state/port.ts'
import { notePositions } from '../state/position-witness.ts'
import { type StoredRecords, storeRecords } from '../state/restore/record-keeper.ts'
import { envIsAllowed } from '../upkeep/models/kind-table.ts'
import { installationKeysAtStart, keepInstallationKeys } from './installation.ts'
import { type Environment, isKafka, kindTableOf, logSettings } from './settings.ts'

export interface ControlPlane {
  readonly log: EventLog
  readonly live: LiveChain
  readonly commits: CommitQueue
  readonly dataKeys: DataKeyStore
  readonly content: ContentKeys
  readonly installation: InstallationKeys
  readonly keys: KeyIndex
  readonly catalogue: OpenCatalogue
  readonly steering: Steering
  /** States of the past, read in a thread of its own. */
  readonly history: History
  /** The records that a start without the log folds; null in a sibling, since the primary process stores them. */
  readonly stored: StoredRecords | null
  /** Ends what was started, the last first. */
  close(): Promise<void>
}

export interface ControlPlaneDeps {
  readonly config: Config
  readonly env: Environment
  readonly masterKeys: ReadMasterKeys
  /** The name of this process among all instances. */
  readonly instance: string
  readonly diagnostics: Diagnostics
  /** One thread for each data folder writes snapshots. */
  readonly snapshots: boolean
  /** A reason that stops a start arrives late when the log was not reachable in time: then it comes here. */
  readonly onRefused: (error: unknown) => void
}

const RETRY_MS = 5_000
/** With a snapshot, how long the start waits for an unreachable log: less than for anything else. */
const GRACE_MS = 1_000
/** More than `segment.ms` of the compacted topic. */
const SEGMENT_CLOSES_MS = 3_900_000

/**
 * Opens it on what the log holds. Throws ControlLogRefused, TopicMisconfigured or MasterKeyMissing when that must not
 * be served from.
 */
export const openControlPlane = async (deps: ControlPlaneDeps): Promise<ControlPlane> => {
  const { config, diagnostics, masterKeys, instance, env } = deps
  const dataDir = config.data.dir
  const log = openLog(logSettings(config, 'control'))
  const closing = new AbortController()
  const shared = { log, dataDir, nowMs: wallMs, diagnostics, graceMs: GRACE_MS, endMayLag: isKafka(config) }
  // Topics first, so that a missing one is reported as that, and not as an unreachable log.
  const away = Promise.withResolvers<void>()
  const topics = isKafka(config) ? untilTopicsAreRight(deps, {}, closing.signal, away.resolve) : Promise.resolve()
  const closesAfterMs = isKafka(config) ? SEGMENT_CLOSES_MS : undefined
  const dataKeys = await openDataKeys({ ...shared, masterKeys, instance, closesAfterMs })
  const { signal } = closing
  const finding = installationKeysAtStart({ ...deps, log, dataKeys, signal })
  const installation = await Promise.race([finding, topics.then(() => finding)])
  const macKey = installation.decisionMac
  if (!isKafka(config)) await startEmbeddedChain(log, macKey, dataDir)
  // On one processor a further thread takes longer.
  const readAhead = availableParallelism() > 1 ? { ...LOG_MODULE, logOptions: logSettings(config, 'ahead') } : undefined
  const live = await openLiveState({
    ...shared,
    nowMs: Date.now,
    macKey,
    expectedChain: config.log.kafka.chain,
    readAhead,
  })
  const ready = Promise.all([topics, live.ready(), dataKeys.ready()])
  if (!(await waitBriefly(ready, deps.onRefused)) && isKafka(config)) await waitUnlessUnreachable(ready, away.promise)
  if (isKafka(config)) void checkAgainstChain(deps, live, closing.signal)

  void live.ready().then(
    () => keepInstallationKeys(dataKeys, installation, diagnostics),
    () => {}, // refused: reported above
  )
  const kindTable = kindTableOf(config)
  const mayName = (name: string) => envIsAllowed(name, kindTable)
  const catalogue = openCatalogue({ live, dataKeys, env, envIsAllowed: mayName, kinds: KINDS, diagnostics })
  const commits = createCommit({ log, live, macKey, nowMs: wallMs, diagnostics, instance })
  const stopSweep = startDataKeySweep({ live, dataKeys, diagnostics })
  const snapshots = startSnapshots({ ...snapshotOptions(deps), macKey, dataDir, ...followed(live) })
  const local = deps.snapshots ? storeLocally(config, live, diagnostics) : null
  return {
    log,
    live,
    commits,
    dataKeys,
    content: createContentKeys({ live, dataKeys, nowMs: wallMs, diagnostics }),
    installation,
    keys: openKeyIndex(live),
    catalogue,
    steering: createSteering(live),
    history: snapshots,
    stored: local?.stored ?? null,
    async close() {
      closing.abort()
      await commits.close(settingMs(config.server.drain) ?? 0) // each command has its own 5 s at most
      await stopSweep()
      await snapshots.stop()
      local?.stop()
      catalogue.close()
      await dataKeys.close()
      await live.close()
      await log.close()
    },
  }
}

const snapshotOptions = ({ config, diagnostics, snapshots }: ControlPlaneDeps) => ({
  ...{ ...LOG_MODULE, logOptions: logSettings(config, 'snapshots') },
  ...{ ...PAST_READER, diagnostics, writes: snapshots },
})

const followed = (live: LiveChain) => ({ after: live.ready(), rest: { position: () => live.next } })

/** What a start without the log knows of the chain. It survives what outcomes survive. */
const storeLocally = (
  { data, log }: Config,
  live: LiveChain,
  diagnostics: Diagnostics,
): { readonly stored: StoredRecords; stop(): void } => {
  const stopNoting = notePositions(live, data.dir, diagnostics)
  const syncs = isKafka({ log }) && log.durability !== 'process'
  const stored = storeRecords({ live, dataDir: data.dir, diagnostics, syncs })
  const stop = () => {
    stopNoting()
    stored.stop()
  }
  return { stored, stop }
}

/**
 * The first start of a data folder makes its chain. Where a snapshot or a witness is, there was one: the live fold
 * reports what became of it.
 */
const startEmbeddedChain = async (log: EventLog, macKey: Uint8Array, dataDir: string): Promise<void> => {
  if (existsSync(join(dataDir, 'control.snapshot')) || readChainWitness(dataDir) !== null) return
  const many = Object.values(TOPICS).filter(({ partitions }) => partitions === 'many')
  const partitions = Object.fromEntries(many.map(({ name }) => [name, 1]))
  await startChain({ log, macKey, chainId: newId('chain'), nowMs: wallMs, partitions })
}

/**
 * Retries until the brokers respond: wrong settings are thrown, unreachable brokers are waited for. Returns what is
 * less safe than it should be.
 */
const untilTopicsAreRight = async (
  { config, diagnostics }: ControlPlaneDeps,
  recorded: Readonly<Record<string, number>>,
  signal: AbortSignal,
  onAway: () => void = () => {},
): Promise<readonly string[]> => {
  const { kafka, retention_hours: retentionHours } = config.log
  const options = { ...kafkaAccess(kafka, 'check'), partitions: kafka.partitions, retentionHours, recorded }
  while (!signal.aborted) {
    try {
      return (await checkTopics(options)).warnings
    } catch (error) {
      if (!(error instanceof LogUnavailable)) throw error
      diagnostics.warn('kafka_not_answering', { error })
      onAway()
      await Bun.sleep(RETRY_MS)
    }
  }
  return []
}

/**
 * Once more with the counts that the chain records: a topic that has fewer partitions would lose what is keyed to the
 * others.
 */
const checkAgainstChain = async (deps: ControlPlaneDeps, live: LiveChain, signal: AbortSignal): Promise<void> => {
  try {
    await live.ready()
    const row = live.control.table('chain').get(CHAIN_ROW)
    if (row === undefined) return
    const warnings = await untilTopicsAreRight(deps, row.partitions, signal)
    for (const warning of warnings) deps.diagnostics.warn('topic_settings', { warning })
  } catch (error) {
    if (!signal.aborted) deps.onRefused(error)
  }
}
