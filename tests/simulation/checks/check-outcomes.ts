// Outcomes: what a client holds is in the log once, what a crash left open is settled once, and every byte of it is as
// it was written.

import { type AppliedSequences, isRepeat } from '../../../projections/repeats.ts'
import { foldRequestRecord, type RequestRow } from '../../../projections/requests/fold.ts'
import { readEnvelope } from '../../../src/log/envelope.ts'
import { TOPICS } from '../../../src/log/topics.ts'
import type { Asked } from '../requests.ts'
import { type Run, requestPartitions } from '../run.ts'

type Settled = Extract<RequestRow, { kind: 'settled' }>

/** What a reader of the requests topic gets once it has dropped repeats, as the projection worker does. */
export interface Read {
  readonly settled: Map<string, Settled[]>
  readonly admitted: Map<string, string>
  /** Ids of records. */
  readonly ids: Set<string>
}

const readRequests = (run: Run): Read => {
  const read: Read = { settled: new Map(), admitted: new Map(), ids: new Set() }
  for (let partition = 0; partition < requestPartitions(); partition++) {
    const applied: AppliedSequences = new Map()
    let logAtMs = 0
    for (const record of run.broker.log.records(TOPICS.requests.name, partition)) {
      logAtMs = Math.max(logAtMs, record.atMs)
      const { origin, rows, problem } = foldRequestRecord(record, logAtMs, partition)
      if (problem !== null || origin === null)
        run.violated(`offset ${record.offset} of requests/${partition}: ${problem}`)
      if (origin === null || isRepeat(applied, origin)) continue
      const { type, data } = readEnvelope(record.value!)!
      const isOurs = run.clients.written.has(`${type} ${JSON.stringify(data)}`)
      const isOrphan = (data as { outcome?: string }).outcome === 'orphaned'
      if (!isOurs && !isOrphan) run.violated(`offset ${record.offset} of requests/${partition} holds what nobody wrote`)
      const id = `${origin.instance}.${origin.epoch}.${origin.sequence}`
      if (read.ids.has(id)) run.violated(`${id} is read twice after repeats were dropped`)
      read.ids.add(id)
      for (const row of rows)
        if (row.kind === 'admitted') read.admitted.set(row.id, id)
        else read.settled.set(row.id, [...(read.settled.get(row.id) ?? []), row])
    }
  }
  return read
}

export const checkOutcomes = (run: Run): Read => {
  const read = readRequests(run)
  for (const asked of run.clients.asked.values()) {
    const { id, answered, costNanoUsd, acknowledged } = asked
    const admission = asked.admission?.id ?? null
    if (run.damaged.has(id)) continue
    const settled = read.settled.get(id) ?? []
    const [first] = settled
    for (const record of acknowledged)
      if (!read.ids.has(record)) run.violated(`${id}: ${record} was acknowledged and is not in the log`)
    if (answered && first?.data.cost_nano_usd !== costNanoUsd)
      run.violated(`${id}: the client holds an answer for ${costNanoUsd}, the log says ${first?.data.cost_nano_usd}`)
    if (answered && first?.data.outcome !== 'success') run.violated(`${id} was answered and is ${first?.data.outcome}`)
    const wasAdmitted = read.admitted.has(id) || (admission !== null && acknowledged.includes(admission))
    if (wasAdmitted && first === undefined) run.violated(`${id} was admitted and is never settled`)
    if (settled.length > 1) run.violated(`${id} is settled ${settled.length} times`)
    for (const { data } of settled) checkOrphan(run, asked, data, read.admitted.get(id) ?? null)
  }
  return read
}

/** What was open is settled at what was reserved, and names its admission. */
const checkOrphan = (run: Run, { id, said, parts }: Asked, data: Settled['data'], admission: string | null): void => {
  if (data.outcome !== 'orphaned') return
  // An unacknowledged admission may be lost in a power cut, and yet stand in the head of a segment.
  if (data.admission !== admission && !(admission === null && run.lostPower))
    run.violated(`${id} is orphaned and names ${data.admission} instead of ${admission}`)
  // The record after the last that was acknowledged may be on the disk, or not.
  const known = said.slice(Math.max(0, said.lastIndexOf(JSON.stringify(parts))))
  const charged = JSON.stringify(data.budget)
  if (known.length > 0 && !known.includes(charged))
    run.violated(`${id} is orphaned at ${charged}, its last record says ${known.at(-1)}`)
}
