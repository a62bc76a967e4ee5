// The part of `gateway verify` that reads the spools of this machine: what still has to be shipped, and whether what
// was shipped is in the topic.
import { newSums, type OutcomeSums } from '../../../projections/agreement.ts'
import type { Origins } from '../../../projections/origins.ts'
import type { Config } from '../../config/schema.ts'
import type { RequestSettled } from '../../domain/events/request.ts'
import { SegmentReader } from '../../log/segments/segments.ts'
import { readWatermark, spoolDirectory, spoolNumbers } from '../../log/spool/spool.ts'

export interface SpoolsRead {
  readonly rows: readonly [string, OutcomeSums][]
  readonly problems: readonly string[]
  readonly warnings: readonly string[]
}

const RECORDS_AT_ONCE = 1_000

/**
 * On Kafka. Embedded, the spools are the topics. `trimmed`: the topic has deleted old records, which a spool may still
 * hold.
 */
export const readSpools = (config: Config, origins: Origins, trimmed: boolean): SpoolsRead => {
  const rows: [string, OutcomeSums][] = []
  const problems: string[] = []
  const warnings: string[] = []
  if (config.log.kafka.brokers.length === 0) return { rows, problems, warnings }
  for (const number of spoolNumbers(config.data.dir)) {
    const { waiting, lost, damagedBytes } = readSpool(spoolDirectory(config.data.dir, number), origins)
    rows.push([`spool ${number}, to be shipped`, waiting])
    if (lost.length > 0 && !trimmed)
      problems.push(
        `spool ${number} has shipped ${lost.length} records that the topic lacks: ${lost.slice(0, 3).join(', ')}`,
      )
    if (damagedBytes > 0) warnings.push(`spool ${number} has ${damagedBytes} bytes that are no records`)
  }
  return { rows, problems, warnings }
}

const readSpool = (directory: string, origins: Origins) => {
  const waiting = newSums()
  const lost: string[] = []
  let damagedBytes = 0
  const shipped = readWatermark(directory, 'sender', 'spool')
  const cursor = new SegmentReader({
    directory,
    onDamage: ({ bytes }) => {
      damagedBytes += bytes.length
    },
  })
  try {
    if (!cursor.seek({ record: 0 })) return { waiting, lost, damagedBytes }
    for (;;) {
      const records = cursor.next(RECORDS_AT_ONCE)
      for (const { record, topic, type, data, instance, epoch, sequence } of records) {
        if (topic !== 'requests') continue
        const isThere = origins.has({ instance, epoch, sequence })
        if (record < shipped && isThere === false) lost.push(`${instance}.${epoch}.${sequence}`)
        if (record >= shipped && isThere !== true && type === 'request.settled') addTo(waiting, data)
      }
      if (records.length === 0 && cursor.atEnd) return { waiting, lost, damagedBytes }
    }
  } finally {
    cursor.close()
  }
}

const addTo = (sums: OutcomeSums, json: string): void => {
  const data = JSON.parse(json) as RequestSettled
  sums.outcomes++
  sums.promptTokens += data.prompt_tokens ?? 0
  sums.completionTokens += data.completion_tokens ?? 0
  sums.costNanoUsd += data.cost_nano_usd ?? 0
  sums.digest = null
}
