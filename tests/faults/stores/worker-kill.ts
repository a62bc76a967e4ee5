// The projection worker is killed (`kill -9`) at random points while outcomes stream in, over a real broker and over
// the embedded log:
// `bun tests/faults/stores/worker-kill.ts [kills] [outcomes] [kafka | embedded]`.
// Prints missing and doubled outcomes, whether every sum is the producers', and how long it takes to rebuild the
// tables: in one go, and by a worker whose database was wiped.
import { startKafka } from '../../../infra/kafka/kafka.ts'
import { startPostgres } from '../../services/postgres.ts'
import { killRun } from '../exactly-once/run.ts'
import { embeddedWorld, kafkaWorld, type World } from '../exactly-once/world.ts'

const PARTITIONS = 4
const [kills = 100, outcomes = 200_000] = process.argv.slice(2, 4).map(Number)
const only = process.argv[4]

let failed = false
const report = async (name: string, world: World) => {
  const postgres = await startPostgres()
  try {
    const found = await killRun({
      world,
      databaseUrl: postgres.url,
      kills,
      outcomes,
      wipes: true,
      progress: (line) => console.error(`${name}: ${line}`),
    })
    const { missing, doubled, problems, books, closings, insideTransactions, seconds, rebuiltS, wipedS } = found
    const perMillion = (took: number) =>
      `${took.toFixed(1)} s, ${((took * 1e6) / books.outcomes).toFixed(0)} s for a million`
    console.log(
      `${name}: ${kills} kills of the worker, ${insideTransactions} seen inside a transaction, ${seconds} ` +
        `s; missing ${missing} of ${books.outcomes} outcomes, doubled ${doubled}`,
    )
    console.log(
      `${name}: requests, usage of three tiers, ${books.frames} frames, tokens ${books.promptTokens + books.completionTokens}, cost ${books.costNanoUsd} nano-USD: ${problems.length === 0 ? 'all equal to what was written, and every table to one made anew from the log' : problems.join('; ')}`,
    )
    console.log(
      `${name}: usage.closed: ${closings.records} records, ${closings.sets} sets, ${closings.writtenAgain} written again and alike; ${closings.problems.length === 0 ? 'none with other contents, every day closed as it stands' : closings.problems.join('; ')}`,
    )
    console.log(
      `${name}: tables of ${books.outcomes} outcomes made anew in one go in ${perMillion(rebuiltS)}; ` +
        `by a worker that found an empty database in ${perMillion(wipedS!)}`,
    )
    if (missing + doubled + problems.length + closings.problems.length > 0) failed = true
  } finally {
    await postgres.remove()
    world.remove()
  }
}

if (only !== 'kafka') await report('embedded', embeddedWorld())
if (only !== 'embedded') {
  const kafka = await startKafka()
  try {
    await report('Kafka', await kafkaWorld(kafka.bootstrap, PARTITIONS))
  } finally {
    await kafka.stop()
  }
}
process.exit(failed ? 1 : 0)
