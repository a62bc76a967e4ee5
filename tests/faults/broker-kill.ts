// R3: `kill -9` of the gateway while the broker is away, again and again; then both come back. `bun tests/faults/broker-kill.ts [--kills 10]`.
// R12: a start while the broker is away, with a snapshot and without one.
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { conclude, type Figure, numberArgument } from './control/figures.ts'
import { startOracle } from './oracle.ts'
import { openBroker } from './rig.ts'
import { settledInKafka } from './settled.ts'

const KILLS = numberArgument('kills', 10)
const CLIENTS = 8

const broker = await openBroker()
const gateway = broker.gateway()
await gateway.until('serving', 60_000)
// A stop writes the snapshot from which it starts while the broker is away.
await gateway.request('/admin/v1/tenants', { body: { slug: 'snapshotted', name: 'in the snapshot' } })
await gateway.end()
gateway.start()
await gateway.until('serving', 60_000)

const killed = async (): Promise<Figure[]> => {
  const oracle = startOracle(() => gateway, CLIENTS, 'sandbox-echo')
  await Bun.sleep(2_000)
  await broker.proxy.refuse()
  const servingMs: number[] = []
  for (let kill = 0; kill < KILLS; kill++) {
    await Bun.sleep(500 + Math.random() * 1_500)
    await gateway.end('SIGKILL')
    gateway.start()
    servingMs.push(await gateway.until('serving', 60_000))
  }
  const write = await gateway.request('/admin/v1/tenants', { body: { slug: 'not-now', name: 'refused' } })
  await write.text()
  await Bun.sleep(1_000)
  await broker.proxy.accept()
  const healedMs = performance.now()
  await Bun.sleep(2_000)
  await oracle.stop()
  const { lost, doubled, outcomes, repeats, otherTokens } = await settledInKafka(broker.direct, oracle)
  const drainedS = (performance.now() - healedMs) / 1_000
  const slowestS = Math.max(...servingMs) / 1_000
  return [
    {
      row: 'R3',
      what: `\`kill -9\` of the gateway ${KILLS} times while the broker is away, then both back`,
      figure: `lost ${lost} of ${oracle.complete.size}, doubled ${doubled} of ${outcomes}, other tokens ${otherTokens}, repeats dropped by id ${repeats}; all in the topic ${drainedS.toFixed(1)} s after`,
      n: oracle.complete.size,
      good: lost + doubled + otherTokens === 0 && oracle.complete.size > 0,
    },
    {
      row: 'R12',
      what: 'started while the broker is away, from a snapshot',
      figure: `serving after ${slowestS.toFixed(1)} s at most; a write meanwhile ${write.status}`,
      n: KILLS,
      good: write.status >= 500,
    },
  ]
}

/** Nothing to start from: it must not serve, nor open the set-up anew. */
const withoutSnapshot = async (): Promise<Figure> => {
  await gateway.end('SIGKILL')
  for (const name of ['control.snapshot', 'control.chain', 'control.position'])
    rmSync(join(gateway.folder, 'data', name), { force: true })
  await broker.proxy.refuse()
  gateway.start()
  const end = await Promise.race([gateway.exited, Bun.sleep(30_000)])
  const answer = end === undefined ? await gateway.request('/v1/models').catch(() => null) : null
  await answer?.text()
  const refused = end !== undefined && end !== 0
  await broker.proxy.accept()
  return {
    row: 'R12',
    what: 'started while the broker is away, without a snapshot',
    figure: refused
      ? `ended with ${end}: ${gateway.output().trim().split('\n').at(-1)!.slice(0, 160)}`
      : `did not end within 30 s; /v1/models ${answer?.status ?? 'not answered'}`,
    n: 1,
    good: refused || answer === null || answer.status >= 500,
  }
}

const figures = await killed()
figures.push(await withoutSnapshot())
await gateway.remove()
await broker.remove()
conclude(figures)
