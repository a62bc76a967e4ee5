// R6: the gateway exceeds its memory limit under load, and the kernel's OOM killer ends it; then it is started again:
// `bun tests/faults/gateway/oom.ts [--times 10]`.
// Where no control group is available (no root), the gateway gets `kill -9` at that limit, and the row says so.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startGateway } from '../../services/gateway.ts'
import { conclude, numberArgument } from '../control/figures.ts'
import { startTenantWriter } from '../failpoints/writer.ts'
import { compare, percentiles, settledRows, startOracle } from '../oracle.ts'
import { failuresText, rssMb, WITHOUT_LOAD_GATE } from '../rig.ts'
import { openMemoryGroup } from './memory-group.ts'

const TIMES = numberArgument('times', 10)
const CLIENTS = 8
/** Streams of the slow model are under way when the end comes. */
const SLOW_CLIENTS = 4
/** Of what is taken once it is bounded. */
const MORE_MB = 256
const DIES_WITHIN_MS = 60_000
const READY_WITHIN_MS = 3_000

const folder = mkdtempSync(join(tmpdir(), 'gatelog-oom-'))
const path = join(folder, 'memory')
writeFileSync(path, '')
const since = new Date(Date.now() - 1_000)
const gateway = startGateway({
  settings: WITHOUT_LOAD_GATE,
  preload: [join(import.meta.dir, '../preloads/hungry.ts')],
  env: { FAULT_MEMORY: path },
})
await gateway.until('ready', 60_000)
const group = openMemoryGroup(MORE_MB * 1024 * 1024)
const oracle = startOracle(() => gateway, CLIENTS, 'sandbox-echo')
const slow = startOracle(() => gateway, SLOW_CLIENTS, 'sandbox-slow-100')
const writer = startTenantWriter(gateway, 'oom')

/** Ends when the gateway has been ended; answers its memory a moment before. */
const eatUntilEnded = async (): Promise<number> => {
  const markMb = rssMb(gateway.pid) + MORE_MB
  let lastMb = 0
  let isOver = false
  group?.add(gateway.pid)
  writeFileSync(path, 'eat')
  const end = gateway.exited.then(() => {
    isOver = true
  })
  for (const startedMs = performance.now(); !isOver && performance.now() - startedMs < DIES_WITHIN_MS; ) {
    try {
      lastMb = rssMb(gateway.pid)
    } catch {
      break // it is no more, or has nothing left: a process that is going has no VmRSS
    }
    if (group === null && lastMb >= markMb) process.kill(gateway.pid, 'SIGKILL')
    await Promise.race([end, Bun.sleep(5)])
  }
  await Promise.race([end, Bun.sleep(DIES_WITHIN_MS)])
  writeFileSync(path, '')
  if (!isOver) throw new Error(`the gateway lives on with ${lastMb.toFixed(0)} MB`)
  return lastMb
}

const readyMs: number[] = []
const mostMb: number[] = []
for (let time = 0; time < TIMES; time++) {
  await Bun.sleep(500 + Math.random() * 1_000)
  mostMb.push(await eatUntilEnded())
  gateway.start()
  readyMs.push(await gateway.until('ready', 60_000))
}
await oracle.answered(200)
await Promise.all([oracle.stop(), slow.stop(), writer.stop()])
const complete = oracle.complete.size + slow.complete.size
const broken = oracle.broken.size + slow.broken.size
const rows = await settledRows(gateway, since, complete)
const found = [oracle, slow].map((each) =>
  compare(
    each,
    rows.filter(({ request_id }) => each.sent.has(request_id)),
  ),
)
const sumOf = (what: 'lost' | 'doubled' | 'otherTokens' | 'recorded') =>
  found.reduce((sum, each) => sum + each[what], 0)
const [lost, doubled, otherTokens, recorded] = [
  sumOf('lost'),
  sumOf('doubled'),
  sumOf('otherTokens'),
  sumOf('recorded'),
]
const phantom = rows.filter(({ request_id: id }) => !oracle.sent.has(id) && !slow.sent.has(id)).length
const tenants = await writer.compare()
await gateway.remove()
rmSync(folder, { recursive: true, force: true })
const kills = group?.kills() ?? TIMES
group?.remove()
const ready = percentiles(readyMs)
conclude([
  {
    row: 'R6',
    what:
      `${group === null ? '`kill -9`' : 'the OOM killer of a memory control group ends the gateway'} ` +
      `${MORE_MB} MB beyond what it had, ${TIMES} times`,
    figure:
      `${group === null ? 'no control group here: killed by us' : 'ended by the kernel'} ${kills} of ` +
      `${TIMES}, at ${Math.max(...mostMb).toFixed(0)} MB at most; lost ${lost} of ${complete}, doubled ` +
      `${doubled}, never sent ${phantom}, other tokens ${otherTokens}; ` +
      `begun, broken off and recorded ${recorded} of ${broken}; tenants told made and missing ` +
      `${tenants.lost} of ${tenants.told}; to ready p50 ${ready.p50.toFixed(0)}, max ` +
      `${ready.max.toFixed(0)} ms; clients saw: ${failuresText(oracle)}`,
    n: complete,
    good:
      kills === TIMES &&
      lost + doubled + phantom + otherTokens + tenants.lost + tenants.doubled === 0 &&
      recorded === broken &&
      complete > 0 &&
      broken > 0 &&
      ready.max <= READY_WITHIN_MS,
  },
])
