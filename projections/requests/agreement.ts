// Compares the request log with the topic that it is made from, outcome by outcome. Holds a batch of them at a time.
import type { Settlement } from '../../src/domain/events/request-reading.ts'
import type { LogRecord } from '../../src/log/port.ts'
import { TOPICS } from '../../src/log/topics.ts'
import { appliedRecords, newSums, type OutcomeSums, Problems, positionsOf, type Snapshot } from '../agreement.ts'
import { storableText } from '../database.ts'
import { Origins } from '../origins.ts'
import type { Build } from '../projection.ts'
import { type AppliedSequences, isRepeat } from '../repeats.ts'
import { dayOf, daysOf } from './days.ts'
import { foldRequestRecord, type SettledRow } from './fold.ts'
import { keysOf } from './stored.ts'

const TOPIC = TOPICS.requests.name

/** What is compared; of an outcome and of its row alike. */
const FIELDS = [
  'id',
  'at_ms',
  'tenant_id',
  'key_id',
  'requested_model',
  'routed_model',
  'provider',
  'outcome',
  'status',
  'error_code',
  'prompt_tokens',
  'completion_tokens',
  'cost_nano_usd',
  'cost_basis',
  'latency_ms',
  'ttft_ms',
  'policy_id',
  'endpoint',
] as const satisfies readonly (keyof Settlement)[]
type Compared = Pick<Settlement, (typeof FIELDS)[number]>
type StoredRow = Compared & { readonly log_offset: number }

const ASIDE_HELD = 100_000

export interface RequestsAgreement {
  /** Outcomes that the topic has, and the rows of those offsets. */
  readonly topic: OutcomeSums
  readonly stored: OutcomeSums
  /** Rows that are older than what the topic keeps. */
  readonly older: OutcomeSums
  readonly records: number
  /** Settlements of requests that an earlier one had settled already. */
  readonly second: number
  readonly origins: Origins
  /** The topic has deleted records. */
  readonly trimmed: boolean
  readonly problems: readonly string[]
}

export const compareRequests = (snapshot: Snapshot, build: Build, requestDays: number): Promise<RequestsAgreement> =>
  new Comparison(snapshot, build).run(requestDays)

class Comparison {
  readonly #problems = new Problems('the request log')
  readonly #topic = newSums()
  readonly #stored = newSums()
  readonly #origins = new Origins()
  /** What the worker has set aside, which it counts and shows. */
  readonly #aside = new Set<string>()
  #records = 0
  #second = 0
  #firstKeptDay = 0

  constructor(
    private readonly snapshot: Snapshot,
    private readonly build: Build,
  ) {}

  async run(requestDays: number): Promise<RequestsAgreement> {
    const { sql } = this.snapshot
    const days = await daysOf(sql, this.build.schemaName)
    const [newest] = await sql<{ day: number }[]>`select day from ${sql(`${this.build.schemaName}.newest_day`)}`
    this.#firstKeptDay = Math.max(days[0] ?? 0, (newest?.day ?? 0) - requestDays)
    const aside = await sql<{ place: string }[]>`
      select partition || ' ' || log_offset as place from gatelog.poison
      where model = ${this.build.model} and build = ${this.build.build} limit ${ASIDE_HELD}`
    for (const { place } of aside) this.#aside.add(place)
    const first = new Map<number, number>()
    for (const reached of await positionsOf(sql, this.build)) {
      let logAtMs = 0
      const seen = new Map<string, number>()
      for await (const records of appliedRecords(this.snapshot, TOPIC, reached, this.#problems)) {
        if (!first.has(reached.partition)) first.set(reached.partition, records[0]!.offset)
        logAtMs = await this.#take(records, reached.partition, logAtMs, seen)
      }
    }
    const older = await this.#older(first)
    return {
      topic: this.#topic,
      stored: this.#stored,
      older,
      records: this.#records,
      second: this.#second,
      origins: this.#origins,
      trimmed: [...first.values()].some((offset) => offset > 0),
      problems: this.#problems.list(),
    }
  }

  /** `seen`: the highest sequence of each process start in this partition, as the worker drops repeats by it. */
  async #take(records: readonly LogRecord[], partition: number, startMs: number, seen: AppliedSequences) {
    let logAtMs = startMs
    const expected = new Map<number, SettledRow>()
    for (const record of records) {
      logAtMs = Math.max(logAtMs, record.atMs)
      const { origin, rows } = foldRequestRecord(record, logAtMs, partition)
      this.#records++
      if (origin !== null) {
        this.#origins.note(origin, partition)
        if (isRepeat(seen, origin)) continue
      }
      if (this.#aside.has(`${partition} ${record.offset}`)) continue
      for (const row of rows) if (row.kind === 'settled') expected.set(record.offset, row)
    }
    const { sql } = this.snapshot
    const stored = await sql<StoredRow[]>`
      select ${sql(FIELDS as unknown as string[])}, log_offset from ${sql(`${this.build.schemaName}.request`)}
      where log_partition = ${partition} and log_offset between ${records[0]!.offset} and ${records.at(-1)!.offset}`
    for (const row of stored) this.#compare(expected, row, partition)
    await this.#lacking([...expected.values()])
    return logAtMs
  }

  /** An outcome that has a row is removed from `expected`. */
  #compare(expected: Map<number, SettledRow>, row: StoredRow, partition: number): void {
    const where = `offset ${row.log_offset} of ${TOPIC}/${partition}`
    const wanted = expected.get(row.log_offset)
    expected.delete(row.log_offset)
    addTo(this.#stored, row)
    if (wanted === undefined) {
      this.#problems.report(`the request log has ${row.id} from ${where}, which holds no such outcome`)
      return
    }
    addTo(this.#topic, wanted.data)
    const different = FIELDS.filter((field) => comparedValue(wanted.data, field) !== (row[field] ?? null))
    if (different.length > 0)
      this.#problems.report(`the request log differs from ${where} in ${row.id}: ${different.join(', ')}`)
  }

  /** Outcomes without a row of their place: settled before by another record, too old to be kept, or lost. */
  async #lacking(rows: readonly SettledRow[]): Promise<void> {
    if (rows.length === 0) return
    const { sql } = this.snapshot
    const held = await sql<{ id: string; at: number; partition: number; offset: number }[]>`
      select id, log_at_ms as at, log_partition as partition, log_offset as "offset"
      from ${keysOf(sql, rows)} join ${sql(`${this.build.schemaName}.request`)} using (at_ms, id)`
    const byId = new Map(held.map((each) => [each.id, each]))
    for (const { id, atMs, place, data } of rows) {
      const own = byId.get(id)
      const where = `offset ${place.offset} of ${TOPIC}/${place.partition}`
      if (own === undefined) {
        if (dayOf(atMs) < this.#firstKeptDay) continue
        addTo(this.#topic, data)
        this.#problems.report(`the request log lacks ${id} from ${where}`)
        continue
      }
      this.#second++
      const order = own.at - place.logAtMs || own.partition - place.partition || own.offset - place.offset
      if (order > 0) this.#problems.report(`the request log has a later settlement of ${id} than the one at ${where}`)
    }
  }

  async #older(first: ReadonlyMap<number, number>): Promise<OutcomeSums> {
    const { sql } = this.snapshot
    const scanned = JSON.stringify([...first].map(([partition, offset]) => ({ partition, first_offset: offset })))
    const [sums] = await sql<Omit<OutcomeSums, 'digest'>[]>`
      select count(*) as outcomes, coalesce(sum(prompt_tokens), 0)::bigint as "promptTokens",
        coalesce(sum(completion_tokens), 0)::bigint as "completionTokens", 
        coalesce(sum(cost_nano_usd), 0)::bigint as "costNanoUsd"
      from ${sql(`${this.build.schemaName}.request`)} held
      left join json_to_recordset(${scanned}::text::json) as scanned (partition integer, first_offset bigint)
        on scanned.partition = held.log_partition
      where scanned.partition is null or held.log_offset < scanned.first_offset`
    return { ...sums!, digest: null }
  }
}

const comparedValue = (data: Compared, field: (typeof FIELDS)[number]): string | number | null => {
  const value = data[field] ?? null
  return typeof value === 'string' ? storableText(value) : value
}

const addTo = (sums: OutcomeSums, data: Compared): void => {
  sums.outcomes++
  sums.promptTokens += data.prompt_tokens ?? 0
  sums.completionTokens += data.completion_tokens ?? 0
  sums.costNanoUsd += data.cost_nano_usd ?? 0
  const line = JSON.stringify(FIELDS.map((field) => comparedValue(data, field)))
  sums.digest = (sums.digest ?? 0n) ^ BigInt(Bun.hash(line))
}
