// The part of `gateway verify` that recomputes the chain: every record, in log order, by the same rule and the same
// fold as the gateway's.
import { CHAIN_ROW } from '../../domain/chain.ts'
import { type EventLog, LogGap, type LogRecord, LogReplaced } from '../../log/port.ts'
import { readChainWitness } from '../../state/chain-witness.ts'
import { ChainFold, CONTROL, type Poison, politeness } from '../../state/fold.ts'
import { loadSnapshot } from '../../state/history/snapshot.ts'
import { problemOf } from '../../state/live/guards.ts'
import { readPosition } from '../../state/position-witness.ts'
import type { Finding } from './verify.ts'

export interface ChainToVerify {
  readonly log: EventLog
  readonly macKey: Uint8Array
  readonly dataDir: string
  /** `log.kafka.chain`. */
  readonly expectedChain: string | null
  /** Called with every batch, in order. */
  each(records: readonly LogRecord[]): Promise<void>
  readonly signal: AbortSignal
}

export interface VerifiedChain {
  readonly finding: Finding
  /** The state of the whole log. */
  readonly state: ChainFold['state']
}

const MAX_POISON_SHOWN = 20

/** Folds the whole log once. What it finds has the offset. */
export const verifyChain = async (chain: ChainToVerify): Promise<VerifiedChain> => {
  const { log, macKey, dataDir, expectedChain } = chain
  // Before the end is read: a gateway that is up moves them on.
  const snapshot = await loadSnapshot(dataDir, macKey)
  const known = { chainId: readChainWitness(dataDir), position: readPosition(dataDir), confirmedAtMs: null }
  const end = await log.end(CONTROL, 0)
  const fold = new ChainFold(macKey)
  const poison: Poison[] = []
  const problems: string[] = []
  let turns = 0
  let held: { readonly digest: string; readonly tip: string } | null = null
  const take = (record: LogRecord) => {
    const step = fold.take(record, true)
    if (step.kind === 'turn') turns += 1
    const found = step.kind === 'poison' ? step.poison : malformedOf(step, record)
    if (found !== null && poison.length < MAX_POISON_SHOWN) poison.push(found)
    if (fold.next === snapshot.start?.next) held = { digest: fold.state.digest(), tip: fold.tip }
  }
  const gap = await readAll(chain, end, fold, take)
  if (gap !== null) problems.push(gap)
  const witnessed = problemOf(fold, { chainId: expectedChain, allowEmpty: false, known }, snapshot.witness)
  if (witnessed !== null) problems.push(witnessed)
  const compared = snapshotProblem(snapshot.start, held)
  if (compared !== null) problems.push(compared)
  const { counts } = fold
  const rows: [string, string][] = [
    ['chain', fold.state.table('chain').get(CHAIN_ROW)?.chain_id ?? 'none'],
    ['records', `${fold.next}${fold.next === end ? '' : ` of ${end}`}`],
    ['counted', String(counts.counted)],
    ['lost', String(counts.lost)],
    ['turns', String(turns)],
    ['unreadable', String(counts.unreadable)],
    ['forged', String(counts.forged)],
    ['malformed', String(counts.malformed)],
    ['tip', fold.tip],
    ['state digest (full replay)', fold.state.digest()],
    [
      'snapshot',
      snapshot.start === null ? (snapshot.problem ?? 'none') : `${compared ?? 'equal'}, at ${snapshot.start.next}`,
    ],
  ]
  const unknown = [...fold.unknownTypes].map(
    (type) => `this build does not know events of the type "${type}": upgrade it`,
  )
  const warnings = poison.map(
    ({ offset, kind, reason }) => `offset ${offset} is ${kind} (${reason}) and changes nothing`,
  )
  const finding = { title: CONTROL, rows, problems: [...problems, ...unknown], warnings }
  return { finding, state: fold.state }
}

const malformedOf = (step: ReturnType<ChainFold['take']>, { offset }: LogRecord): Poison | null =>
  step.kind === 'counts' && step.folded.malformed !== null
    ? { offset, kind: 'malformed', reason: step.folded.malformed }
    : null

/** Every record up to the end; returns what prevents reading it. */
const readAll = async (
  { log, each, signal }: ChainToVerify,
  end: number,
  fold: ChainFold,
  take: (record: LogRecord) => void,
): Promise<string | null> => {
  const pause = politeness()
  try {
    if (end > 0)
      for await (const batch of log.read(CONTROL, 0, 0, signal)) {
        const records = batch.filter(({ offset }) => offset < end)
        const odd = records.find(({ offset }, at) => offset !== fold.next + at)
        if (odd !== undefined)
          return `${CONTROL} has no records from ${fold.next} to ${odd.offset}: it was cut; restore it`
        for (const record of records) take(record)
        await each(records)
        if (fold.next >= end) break
        await pause()
      }
  } catch (error) {
    if (!(error instanceof LogGap || error instanceof LogReplaced)) throw error
    return `${CONTROL} cannot be read on from ${fold.next}: ${error.message}`
  }
  signal.throwIfAborted()
  return null
}

const snapshotProblem = (
  start: Awaited<ReturnType<typeof loadSnapshot>>['start'],
  held: { readonly digest: string; readonly tip: string } | null,
): string | null => {
  if (start === null) return null
  if (held === null) return `the snapshot holds ${start.next} records, the log has fewer`
  if (held.tip !== start.tip)
    return `the snapshot has the tip ${start.tip.slice(0, 12)} at ${start.next}, the log ${held.tip.slice(0, 12)}`
  const digest = start.state.digest()
  return digest === held.digest
    ? null
    : `the snapshot has the state ${digest.slice(0, 12)} at ${start.next}, a full replay ${held.digest.slice(0, 12)}`
}
