// What the requests topic charges to each `X-Request-ID`, read from the topic itself and not through a gateway.
// Compared with the upstream's bill, it names the requests that no budget was charged for.
import type { RequestSettled } from '../../../src/domain/events/request.ts'
import { admissionIdOf } from '../../../src/domain/events/request-reading.ts'
import { readEnvelope } from '../../../src/log/envelope.ts'
import { kafkaLog } from '../../../src/log/kafka/log.ts'
import { TOPICS } from '../../../src/log/topics.ts'
import type { Rig } from './rig.ts'

export interface Uncharged {
  readonly user: string
  readonly billed: number
  readonly charged: number
  /** Of the records that name the user, as they stand there. */
  readonly records: readonly string[]
}

/** Requests that the upstream billed and no outcome charges as much for. */
export const uncharged = async (rig: Rig): Promise<Uncharged[]> => {
  const log = kafkaLog({ brokers: rig.kafka.bootstrap, clientId: 'gatelog-test' })
  const charged = new Map<string, number>()
  const records = new Map<string, string[]>()
  const settled = new Set<string>()
  const take = (value: Uint8Array | null) => {
    const envelope = value === null ? null : readEnvelope(value)
    const { request_id: user, budget, admission } = (envelope?.data ?? {}) as Partial<RequestSettled>
    if (envelope === null || !user) return
    records.set(user, [...(records.get(user) ?? []), new TextDecoder().decode(value!)])
    const name = admissionIdOf(admission, `${envelope.instance}.${envelope.epoch}`) ?? envelope.id
    if (envelope.type !== 'request.settled' || settled.has(name)) return
    settled.add(name)
    const nanoUsd = (budget ?? []).reduce((sum, each) => sum + (each.nano_usd ?? 0), 0)
    charged.set(user, (charged.get(user) ?? 0) + nanoUsd)
  }
  for (const partition of await log.partitions(TOPICS.requests.name)) {
    const end = await log.end(TOPICS.requests.name, partition)
    if (end === 0) continue
    for await (const batch of log.read(TOPICS.requests.name, partition, 0, new AbortController().signal)) {
      for (const { value } of batch) take(value)
      if (batch.at(-1)!.offset + 1 >= end) break
    }
  }
  await log.close()
  const found: Uncharged[] = []
  for (const [user, billed] of rig.upstream.billedFor) {
    const sum = charged.get(user) ?? 0
    if (sum < billed) found.push({ user, billed, charged: sum, records: records.get(user) ?? [] })
  }
  return found
}
