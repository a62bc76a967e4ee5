// The spend of each tenant, from the requests topic.
//
//   bun spend.ts --brokers localhost:9092 --state spend.db [--follow]
//
// Outcomes and offsets are one transaction of one SQLite file: after a crash at any moment it continues from there, and
// counts nothing twice.
// Prints one line of JSON: the spend by tenant, in whole nano-USD (1 USD is 1,000,000,000).
import { Database } from 'bun:sqlite'
import { parseArgs } from 'node:util'
import { Kafka, logLevel } from 'kafkajs'
import './lz4.ts'

const TOPIC = 'gateway.requests.v1'

/**
 * The members of `request.settled` that are used here; what says nothing is absent. All of them:
 * `/schemas/request.settled.json` of any gateway.
 */
interface Outcome {
  readonly id: string
  readonly tenant_id?: string
  readonly at_ms: number
  readonly cost_nano_usd?: number
  readonly prompt_tokens?: number
  readonly completion_tokens?: number
}

/** The file that stores outcomes and offsets. */
const openState = (path: string) => {
  const database = new Database(path, { create: true, safeIntegers: true })
  database.run('create table if not exists position (partition integer primary key, next integer not null)')
  database.run(`create table if not exists outcome (
    id text primary key, tenant_id text, at_ms integer not null, cost_nano_usd integer,
    prompt_tokens integer not null, completion_tokens integer not null) without rowid`)
  const insert = database.prepare('insert or ignore into outcome values (?, ?, ?, ?, ?, ?)')
  const move = database.prepare('insert or replace into position values (?, ?)')
  return {
    /** Partition -> next offset. */
    positions: (): Map<number, bigint> =>
      new Map(
        (database.query('select partition, next from position').all() as { partition: bigint; next: bigint }[]).map(
          (row) => [Number(row.partition), row.next],
        ),
      ),
    /** The first settlement of a request is its outcome: repeats and further settlements change nothing. */
    keep: database.transaction((partition: number, outcomes: readonly Outcome[], next: bigint) => {
      for (const { id, tenant_id, at_ms, cost_nano_usd, prompt_tokens, completion_tokens } of outcomes)
        insert.run(id, tenant_id ?? null, at_ms, cost_nano_usd ?? null, prompt_tokens ?? 0, completion_tokens ?? 0)
      move.run(partition, next)
    }),
    spend: () =>
      database
        .query(
          `select tenant_id, count(*) as requests,
             sum(prompt_tokens) as prompt_tokens, sum(completion_tokens) as completion_tokens,
           coalesce(sum(cost_nano_usd), 0) as cost_nano_usd, count(*) - count(cost_nano_usd) as unpriced
           from outcome group by tenant_id order by tenant_id`,
        )
        .all(),
    close: () => database.close(),
  }
}

/** Null: an event type that is unknown or not needed here. */
const settled = (value: Buffer | null): Outcome | null => {
  if (value === null) return null
  const { type, data } = JSON.parse(value.toString('utf8')) as { type: string; data: Outcome }
  return type === 'request.settled' ? data : null
}

/** BigInts as numbers, digit by digit: sums of nano-USD can exceed the precision of a double. */
const print = (read: number, spend: unknown): void => {
  const text = JSON.stringify({ read, spend }, (_, value) => (typeof value === 'bigint' ? `#${value}#` : value))
  console.log(text.replaceAll(/"#(-?\d+)#"/g, '$1'))
}

const main = async (): Promise<void> => {
  const { values } = parseArgs({
    options: {
      brokers: { type: 'string' },
      state: { type: 'string', default: 'spend.db' },
      follow: { type: 'boolean', default: false },
    },
  })
  if (values.brokers === undefined) throw new Error('--brokers host:port is missing')
  const state = openState(values.state)
  const kafka = new Kafka({ clientId: 'spend', brokers: values.brokers.split(','), logLevel: logLevel.ERROR })
  const admin = kafka.admin()
  await admin.connect()
  const offsets = await admin.fetchTopicOffsets(TOPIC)
  const next = state.positions()
  for (const { partition, low } of offsets) {
    const mine = next.get(partition) ?? BigInt(low)
    if (mine < BigInt(low))
      throw new Error(`partition ${partition} begins at ${low}, ${mine} comes next here: records are lost`)
    next.set(partition, mine)
  }
  const atEnd = (): boolean => offsets.every(({ partition, high }) => next.get(partition)! >= BigInt(high))
  // The stored offsets decide; the group's offsets only start kafkajs at them. Each run has a group of its own: kafkajs
  // cannot be assigned partitions, and two runs on one state would conflict.
  const groupId = `spend-${crypto.randomUUID()}`
  const start = offsets.map(({ partition }) => ({ partition, offset: String(next.get(partition)) }))
  await admin.setOffsets({ groupId, topic: TOPIC, partitions: start })
  const consumer = kafka.consumer({ groupId })
  const done = Promise.withResolvers<void>()
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    if (!payload.restart) done.reject(payload.error)
  })
  let read = 0
  if (!values.follow && atEnd()) done.resolve()
  else {
    await consumer.connect()
    await consumer.subscribe({ topics: [TOPIC], fromBeginning: true })
    await consumer.run({
      eachBatch: async ({ batch }) => {
        // After a rejoin some records repeat: they are below the stored offset.
        const fresh = batch.messages.filter(({ offset }) => BigInt(offset) >= next.get(batch.partition)!)
        if (fresh.length === 0) return
        const outcomes = fresh.map(({ value }) => settled(value)).filter((outcome) => outcome !== null)
        const following = BigInt(fresh.at(-1)!.offset) + 1n
        state.keep(batch.partition, outcomes, following)
        next.set(batch.partition, following)
        read += outcomes.length
        if (values.follow) print(read, state.spend())
        else if (atEnd()) done.resolve()
      },
    })
  }
  try {
    await done.promise
    print(read, state.spend())
  } finally {
    await consumer.disconnect()
    await admin
      .deleteGroups([groupId])
      .catch((error: Error) => console.error(`the group ${groupId} stays: ${error.message}`))
    await admin.disconnect()
    state.close()
  }
}

await main()
