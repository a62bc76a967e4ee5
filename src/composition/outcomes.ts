// Puts together where outcomes go: this process's spool, on Kafka the sender that ships it, and what dead processes
// left open.

import type { Config } from '../config/schema.ts'
import { CHAIN_ROW } from '../domain/chain.ts'
import { sleep } from '../lib/event-loop/sleep.ts'
import type { Diagnostics } from '../lib/process/diagnostics.ts'
import { wallMs } from '../lib/time/wall-clock.ts'
import { LOG_MODULE } from '../log/open-log.ts'
import { type Sender, type SenderOptions, type SenderStatus, startSender } from '../log/sender/thread.ts'
import { adoptFreeSpools, type LocalSpool, openSpool, type SpoolOptions } from '../log/spool/spool.ts'
import { TOPICS } from '../log/topics.ts'
import type { LiveChain } from '../state/live-chain.ts'
import { settleOrphans } from '../upkeep/budgets/orphans.ts'
import { SpoolNeeds } from '../upkeep/budgets/spool-needs.ts'
import { isKafka, logSettings } from './settings.ts'

/**
 * The consumer that must have read a segment of the embedded log before it may be deleted: the projection worker, under
 * this name.
 */
export const PROJECTION_CONSUMER = 'projection'

const HOUR_MS = 3_600_000
const MIB = 1_048_576

export interface Outcomes {
  readonly spool: LocalSpool
  sender(): SenderStatus | null
  /**
   * Starts shipping, settles what crashes left open, adopts abandoned spools when the options include that. Call it
   * once the control state is opened.
   */
  start(live: LiveChain, options: StartOptions): void
  /** The first record of the own spool that is needed to know what was spent of budgets. */
  needFrom(record: number): void
  /**
   * Call it once budgets are closed. Lets the sender finish for a moment, then ends it; what it has not shipped stays
   * in the spool. The caller that opened the spool closes it.
   */
  stop(): Promise<void>
}

export interface StartOptions {
  readonly adopt: boolean
  /**
   * Releases what dead processes held of budgets, once what they left open in a spool is settled. `isSettled` false:
   * some of that could not be read.
   */
  recover(spool: LocalSpool, signal: AbortSignal, isSettled: boolean): Promise<Recovery>
}

export interface Recovery {
  /** False: it was stopped before. */
  readonly isDone: boolean
  /**
   * Resolves when also what came to the log late is released, which no process does once the spool is deleted; to false
   * when it was stopped before, or when something that is left open cannot be read.
   */
  readonly late: Promise<boolean>
}

const LAST_SHIPMENT_MS = 2_000
/**
 * Readers of the topics do not need batches more often, and each batch has a fixed cost, whatever is in it: the append,
 * the broker's response, cold code.
 */
const GATHER_MS = 100
const ADOPT_AGAIN_MS = 1_000
const ADOPT_AT_LEAST_EVERY_MS = 30_000

/** Replacements for the disk and the sender's thread; left out: the real ones. */
export interface OutcomePorts {
  readonly spool?: Pick<SpoolOptions, 'files' | 'newEpoch' | 'segmentBytes' | 'ballastBytes' | 'atEnd'>
  readonly startSender?: (options: SenderOptions) => Sender
}

/** Opens the spool of this process. Throws when the data folder cannot be written. */
export const openOutcomes = async (
  config: Pick<Config, 'data' | 'log'>,
  diagnostics: Diagnostics,
  ports: OutcomePorts = {},
): Promise<Outcomes> => {
  let sender: Sender | null = null
  const options: SpoolOptions = { ...spoolOptions(config), ...ports.spool, onFlushed: () => sender?.wake() }
  const needs = new SpoolNeeds(() => performance.now())
  const spool = await openSpool({ ...options, retainFrom: () => needs.record })
  needs.of(spool)
  reportFound(spool, diagnostics)
  const closing = new AbortController()
  const closed = new Promise<void>((resolve) => closing.signal.addEventListener('abort', () => resolve()))
  let work: Promise<void> = Promise.resolve()

  const run = async (live: LiveChain, { adopt, recover }: StartOptions): Promise<void> => {
    if (isKafka(config)) {
      await Promise.race([live.ready(), closed])
      if (closing.signal.aborted) return
      sender = (ports.startSender ?? startSender)({
        spool,
        ...LOG_MODULE,
        logOptions: logSettings(config, 'sender'),
        targets: targetsOf(live),
        afterSync: config.log.durability === 'host',
        // Under `log` requests wait for it.
        gatherMs: config.log.durability === 'log' ? 0 : GATHER_MS,
        onProblem: (problem) => diagnostics.warn('sender_problem', { problem }),
      })
    }
    const own = recover(spool, closing.signal, await settle(spool, diagnostics, closing.signal)).then(({ isDone }) =>
      needs.recovered(isDone),
    )
    own.catch(() => undefined) // reported below
    for (const adopted of adopt ? await adoptedSpools(options, diagnostics, closing.signal) : []) {
      reportFound(adopted, diagnostics)
      const isSettled = await settle(adopted, diagnostics, closing.signal)
      const { isDone, late } = await recover(adopted, closing.signal, isSettled)
      if (!isDone) {
        // The next process that adopts it needs its content.
        await adopted.close()
        continue
      }
      diagnostics.info('spool_adopted', { spool: adopted.number })
      if (sender !== null) sender.drain(adopted, late)
      else await adopted.close()
    }
    await own
  }
  return {
    spool,
    sender: () => sender?.status() ?? null,
    needFrom: (record) => needs.from(record),
    start(live, options) {
      work = run(live, options).catch((error: unknown) => {
        if (!closing.signal.aborted) diagnostics.error('outcomes_not_started', { error })
      })
    },
    async stop() {
      closing.abort()
      await work
      needs.note() // budgets have written their last reports
      const deadline = performance.now() + LAST_SHIPMENT_MS
      while (sender !== null && spool.backlog().records > 0 && performance.now() < deadline) await Bun.sleep(20)
      await sender?.stop()
    },
  }
}

/** Settles what crashes left open in a spool. False: some of it cannot be read. */
const settle = async (spool: LocalSpool, diagnostics: Diagnostics, signal: AbortSignal): Promise<boolean> => {
  const { settled, unreadable } = await settleOrphans(spool, signal)
  if (settled > 0) diagnostics.info('orphans_settled', { spool: spool.number, settled })
  if (unreadable > 0) diagnostics.error('orphans_unreadable', { spool: spool.number, unreadable })
  return unreadable === 0
}

/**
 * The spools of dead processes. A disk that is full or fails is waited for: no other process ships what they left, or
 * releases it.
 */
const adoptedSpools = async (
  options: SpoolOptions,
  diagnostics: Diagnostics,
  signal: AbortSignal,
): Promise<LocalSpool[]> => {
  for (let waitMs = ADOPT_AGAIN_MS; ; waitMs = Math.min(2 * waitMs, ADOPT_AT_LEAST_EVERY_MS)) {
    try {
      return await adoptFreeSpools(options)
    } catch (error) {
      if (waitMs === ADOPT_AGAIN_MS) diagnostics.error('spools_not_adopted', { error })
      await sleep(waitMs, signal)
      if (signal.aborted) throw error
    }
  }
}

/**
 * What an operator should know of the spool that a start found: a record that was cut short, bytes that cannot be read,
 * a disk that fails.
 */
const reportFound = (spool: LocalSpool, diagnostics: Diagnostics): void => {
  const { number, damaged, tornBytes, syncFailures } = spool.status()
  if (damaged + tornBytes + syncFailures > 0) {
    diagnostics.warn('spool_damaged', { spool: number, damaged, tornBytes, refusedSyncs: syncFailures })
  }
}

const spoolOptions = (config: Pick<Config, 'data' | 'log'>): SpoolOptions => ({
  dataDir: config.data.dir,
  durability: config.log.durability,
  keeping: isKafka(config)
    ? { until: 'shipped' }
    : {
        until: 'projected',
        consumers: { requests: [PROJECTION_CONSUMER], operations: [] },
        retentionMs: config.log.retention_hours * HOUR_MS,
      },
  nowMs: wallMs,
  backlogBytes: config.log.max_backlog_mb * MIB,
})

/**
 * Where each kind of record goes; the counts are those of the chain, so that every instance chooses the same partition.
 */
const targetsOf = (live: LiveChain) => {
  const recorded = live.control.table('chain').get(CHAIN_ROW)?.partitions ?? {}
  const target = ({ name }: { name: string }) => ({ topic: name, partitions: recorded[name] ?? 1 })
  return { requests: target(TOPICS.requests), operations: target(TOPICS.operations) }
}
