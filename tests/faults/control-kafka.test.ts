// Short runs of the control figures that need instances on a broker: each script's own N is in `bun tests/faults/control/all.ts`. One broker for all;
// each run makes its instances, and what is left in the topics is no hindrance to the next.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type Kafka, startKafka } from '../../infra/kafka/kafka.ts'
import type { Figure } from './control/figures.ts'
import { lostLog } from './control/lost-log.ts'
import { rolling } from './control/rolling.ts'
import { withdrawals } from './control/withdrawals.ts'

let kafka: Kafka
beforeAll(async () => {
  kafka = await startKafka()
}, 120_000)
afterAll(() => kafka?.stop())

/** Says which figure missed, not only that one did. */
const expectGood = (figures: readonly Figure[]) => {
  expect(figures.length).toBeGreaterThan(0)
  expect(figures.filter(({ good }) => !good)).toEqual([])
}

test('C8: nobody accepts what was withdrawn once an answer says that all have applied it', async () => {
  expectGood(await withdrawals({ times: 3, load: 0, warm: 0, aimMs: null }, kafka))
}, 120_000)

test('C7: an instance that has seen more than the log holds refuses to start, and brings the tail back', async () => {
  expectGood(await lostLog(1, kafka))
}, 120_000)

test('C6: two instances are rolled to a newer build, back, and up again', async () => {
  expectGood(await rolling(0, 2, kafka))
}, 120_000)
