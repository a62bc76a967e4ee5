// C5: the control topics that earlier builds wrote fold to the state that those builds had.
// `bun tests/faults/control/golden.ts`: each log is written into a separate topic on a real broker, and read from there
// by an instance that follows it and by a fold of the whole log. The recorded budget logs fold to the same grants and
// accounts.
import { startKafka } from '../../../infra/kafka/kafka.ts'
import { FOLD_VERSION } from '../../../src/domain/control.ts'
import { MAX_APPEND_BYTES, MAX_APPEND_RECORDS } from '../../../src/log/append-limits.ts'
import { readEnvelope } from '../../../src/log/envelope.ts'
import type { EventLog, NewRecord } from '../../../src/log/port.ts'
import { BudgetLedger } from '../../../src/state/budgets/ledger.ts'
import { CONTROL, foldAgain } from '../../../src/state/fold.ts'
import { accountsText, budgetLogNames, readBudgetLog, verdictText } from '../../fixtures/golden-budgets.ts'
import { type GoldenRecord, goldenNames, readGolden } from '../../fixtures/golden-log.ts'
import { macKey, openInstance, quiet } from '../../state/support.ts'
import { conclude, type Figure } from './figures.ts'
import { kafkaWorld, type World } from './world.ts'

const FOLDED_WITHIN_MS = 30_000

const written = async (log: EventLog, records: readonly GoldenRecord[]): Promise<void> => {
  let batch: NewRecord[] = []
  let bytes = 0
  const flush = async () => {
    if (batch.length > 0) await log.append(CONTROL, 0, batch)
    batch = []
    bytes = 0
  }
  for (const { value } of records) {
    const record = { key: null, value: Buffer.from(value, 'base64') }
    if (batch.length === MAX_APPEND_RECORDS || bytes + record.value.length > MAX_APPEND_BYTES) await flush()
    batch.push(record)
    bytes += record.value.length
  }
  await flush()
}

/**
 * The broker stamps records with the current time. The fold uses log time, so the time of the recording is put back.
 */
const atItsTime = (log: EventLog, records: readonly GoldenRecord[]): EventLog => ({
  ...log,
  async *read(topic, partition, from, signal) {
    for await (const batch of log.read(topic, partition, from, signal))
      yield batch.map((record) => ({ ...record, atMs: records[record.offset]!.at }))
  },
})

/** What is wrong with the fold of one log, or null. Closes the world. */
const mismatch = async (world: World, name: string): Promise<string | null> => {
  const { header, records } = readGolden(name)
  const plain = world.view()
  try {
    await written(plain, records)
    const log = atItsTime(plain, records)
    const replay = await foldAgain(log, macKey, new AbortController().signal)
    const { live, close } = await openInstance('golden', log)
    await live.ready()
    await live.condition.until(() => live.next >= records.length, FOLDED_WITHIN_MS)
    const followed = live.status()
    await close()
    const expected = header.digests[FOLD_VERSION]
    if (replay.counts.counted !== records.length)
      return `${name}: ${replay.counts.counted} of ${records.length} records count`
    if (replay.tip !== header.tip || followed.tip !== header.tip) return `${name}: another tip`
    return replay.state.digest() === expected && followed.digest === expected ? null : `${name}: another digest`
  } finally {
    await plain.close()
    await world.close()
  }
}

/** What is wrong with the accounts of one log as a ledger reads them, or null. Closes the world. */
const budgetMismatch = async (world: World, name: string): Promise<string | null> => {
  const { header, records } = readBudgetLog(name)
  const plain = world.view()
  const timed = atItsTime(plain, records)
  // The topic of the world stands for that of budgets.
  const log: EventLog = {
    ...timed,
    read: (_topic, ...rest) => timed.read(CONTROL, ...rest),
    end: (_topic, partition) => timed.end(CONTROL, partition),
    since: (_topic, ...rest) => timed.since(CONTROL, ...rest),
  }
  const verdicts: string[] = []
  const ledger = new BudgetLedger({
    ...{ log, partitions: () => 1, nowMs: () => 0, diagnostics: quiet },
    onFolded: ({ verdict }) => void (verdict === null || verdicts.push(verdictText(verdict))),
  })
  try {
    await written(plain, records)
    const { subject } = readEnvelope(Buffer.from(records[0]!.value, 'base64'))!
    await ledger.follow(subject)
    const wanted = header.verdicts.map((verdict) => verdict.slice(verdict.indexOf(' ') + 1))
    if (verdicts.join() !== wanted.join()) return `${name}: other grants`
    const { standings, digest } = accountsText(ledger.accounts(subject)?.all() ?? [])
    return standings.join() === header.standings.join() && digest === header.digest ? null : `${name}: other accounts`
  } finally {
    await ledger.close()
    await plain.close()
    await world.close()
  }
}

const goldenBudgets = async (open: () => World | Promise<World>): Promise<Figure> => {
  const names = budgetLogNames()
  const mismatches: string[] = []
  for (const name of names) {
    const flaw = await budgetMismatch(await open(), name)
    if (flaw !== null) mismatches.push(flaw)
  }
  const verdicts = names.reduce((sum, name) => sum + readBudgetLog(name).header.verdicts.length, 0)
  const told = mismatches.length === 0 ? '' : ` (${mismatches.join(', ')})`
  const figure = `mismatches ${mismatches.length} of ${names.length} logs${told}, ${verdicts} requests for leases`
  const what = `golden logs of budgets of ${names.join(', ')} written and read by this build’s ledger`
  return { row: 'C5', what, figure, n: names.length, good: names.length > 0 && mismatches.length === 0 }
}

/** `open`: a world for each of them. */
export const golden = async (open: () => World | Promise<World>): Promise<readonly Figure[]> => {
  const names = goldenNames()
  const mismatches: string[] = []
  let kind = ''
  for (const name of names) {
    const world = await open()
    kind = world.kind
    const flaw = await mismatch(world, name)
    if (flaw !== null) mismatches.push(flaw)
  }
  const records = names.reduce((sum, name) => sum + readGolden(name).records.length, 0)
  const told = mismatches.length === 0 ? '' : ` (${mismatches.join(', ')})`
  const figure =
    `digest mismatches ${mismatches.length} of ${names.length} logs${told}, ` +
    `${records} records, each by a whole fold and by an instance`
  const what =
    `golden logs of ${names.join(', ')} written to ` +
    `${kind === 'kafka' ? 'a real broker' : 'a log in memory'} and folded by this ` +
    'build'
  const good = names.length > 0 && mismatches.length === 0
  return [{ row: 'C5', what, figure, n: names.length, good }, await goldenBudgets(open)]
}

if (import.meta.main) {
  const kafka = await startKafka()
  const figures = await golden(() => kafkaWorld({ bootstrap: kafka.bootstrap }))
  await kafka.stop()
  conclude(figures)
}
