// A turn of the event loop has one time for much that it does (`lib/turn-clock.ts`), but not for how long something took.
import { afterEach, expect, test } from 'bun:test'
import type { ProviderKind } from '../../src/providers/provider.ts'
import { type FaultRequest, type FaultServer, startFaultServer } from '../faults/matrix/fault-server.ts'
import { ANSWER, send } from '../faults/matrix/row.ts'
import { entry, type TestGateway, testGateway } from './gateway.ts'
import { plainKind } from './plain-kind.ts'

const WORK_MS = 30
const COUNT = 3

let server: FaultServer
let gateway: TestGateway
afterEach(() => {
  gateway.close()
  server.stop()
})

test('what the gateway itself does with answers is in the times that it records and tells', async () => {
  const held: FaultRequest[] = []
  server = startFaultServer((request) => {
    if (held.push(request) === COUNT) for (const each of held) send(each, ANSWER)
  })
  const slow: ProviderKind = {
    ...plainKind,
    response(body, reading) {
      Bun.sleepSync(WORK_MS)
      return plainKind.response(body, reading)
    },
  }
  gateway = testGateway({ entries: [entry({ baseUrl: `http://127.0.0.1:${server.port}/v1` })], kinds: [slow] })
  const answers = await Promise.all(
    Array.from({ length: COUNT }, () =>
      gateway.chat({ model: 'small', messages: [{ role: 'user', content: 'hi' }] }).then((answer) => answer.json()),
    ),
  )
  const settled = gateway.spool.settled()
  const times = {
    told: answers.map((answer) => (answer as { gateway: { latency_ms: number } }).gateway.latency_ms),
    recorded: settled.map(({ latency_ms }) => latency_ms),
    ofAttempts: settled.map(({ attempts }) => attempts[0]!.latency_ms!),
  }
  // They come together, and are read one after the other.
  for (const [what, all] of Object.entries(times)) {
    expect([what, all.length]).toEqual([what, COUNT])
    expect(Math.max(...all)).toBeGreaterThanOrEqual(COUNT * WORK_MS - 1)
  }
})
