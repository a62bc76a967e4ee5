// C5: the control topics that earlier builds wrote fold to the state that those builds had. `bun tests/faults/control/golden.ts`: each is written into a
// topic of its own on a real broker, and read from there by an instance that follows it and by a fold of the whole log.
import { startKafka } from '../../../infra/kafka/kafka.ts'
import { FOLD_VERSION } from '../../../src/domain/control.ts'
import type { EventLog, NewRecord } from '../../../src/log/port.ts'
import { MAX_APPEND_BYTES, MAX_APPEND_RECORDS } from '../../../src/log/port-limits.ts'
import { CONTROL, foldAgain } from '../../../src/state/fold.ts'
import { type GoldenRecord, goldenNames, readGolden } from '../../fixtures/golden-log.ts'
import { macKey, openInstance } from '../../state/support.ts'
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

/** The broker stamps what it is given with the time of now; the fold goes by the log's time, so that of the recording is put back. */
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
    await live.changed.until(() => live.next >= records.length, FOLDED_WITHIN_MS)
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
  const figure = `digest mismatches ${mismatches.length} of ${names.length} logs${told}, ${records} records, each by a whole fold and by an instance`
  const what = `golden logs of ${names.join(', ')} written to ${kind === 'kafka' ? 'a real broker' : 'a log in memory'} and folded by this build`
  return [{ row: 'C5', what, figure, n: names.length, good: names.length > 0 && mismatches.length === 0 }]
}

if (import.meta.main) {
  const kafka = await startKafka()
  const figures = await golden(() => kafkaWorld({ bootstrap: kafka.bootstrap }))
  await kafka.stop()
  conclude(figures)
}
