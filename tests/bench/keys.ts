// What a million API keys cost: `bun tests/bench/keys.ts [keys]`. The index alone, then the rows of the control state that it stands beside.
import { heapStats } from 'bun:jsc'
import type { ApiKeyRow } from '../../src/domain/api-key.ts'
import { ControlState } from '../../src/domain/control.ts'
import { sha256Hex } from '../../src/lib/digest.ts'
import { newId } from '../../src/lib/ids.ts'
import { Columns } from '../../src/state/keys.ts'

const count = Number(process.argv[2] ?? 1_000_000)
const LOOKUPS = 1_000_000

const rowOf = (index: number, id: string): ApiKeyRow => ({
  id,
  tenant_id: `ten_${index % 1_000}`,
  name: `key ${index}`,
  scopes: ['inference'],
  status: 'active',
  digest: sha256Hex(`secret ${index}`),
  expires_at: index % 3 === 0 ? '2027-11-20T12:00:00.000Z' : null,
  routing_policy_id: null,
  rate_limits: null,
  revoked_at: null,
  managed_by: 'api',
  created_at: '2026-11-20T12:00:00.000Z',
  updated_at: '2026-11-20T12:00:00.000Z',
  revision: sha256Hex(`revision ${index}`),
})

const used = () => {
  Bun.gc(true)
  const { heapSize, extraMemorySize } = heapStats()
  return { heap: heapSize, extra: extraMemorySize, rss: process.memoryUsage.rss() }
}
const mb = (bytes: number) => `${(bytes / 1e6).toFixed(0)} MB`
const grown = (name: string, before: ReturnType<typeof used>, after: ReturnType<typeof used>) =>
  console.log(
    `${name}: heap +${mb(after.heap - before.heap)}, of it buffers +${mb(after.extra - before.extra)}, RSS +${mb(after.rss - before.rss)}`,
  )

const empty = used()
const index = new Columns()
const fillStartMs = performance.now()
for (let number = 0; number < count; number++) index.put(rowOf(number, newId('key')))
const fillMs = performance.now() - fillStartMs
const filled = used()
console.log(`${index.size} keys, Bun ${Bun.version}`)
grown('index (ids counted here, though it shares them with the rows)', empty, filled)
console.log(`filled in ${fillMs.toFixed(0)} ms`)

const digests = Array.from({ length: 10_000 }, (_, number) => sha256Hex(`secret ${(number * 7919) % count}`))
const hitStartMs = performance.now()
let hits = 0
for (let number = 0; number < LOOKUPS; number++) if (index.lookup(digests[number % digests.length]!) !== null) hits += 1
const hitNs = ((performance.now() - hitStartMs) / LOOKUPS) * 1e6
const gcStartMs = performance.now()
Bun.gc(true)
console.log(
  `lookup: ${hitNs.toFixed(0)} ns (${hits} of ${LOOKUPS} found); full collection with the index alone: ${(performance.now() - gcStartMs).toFixed(0)} ms`,
)

const before = used()
const state = new ControlState()
for (let number = 0; number < count; number++) {
  const after = rowOf(number, `key_${number}`)
  state.raw('keys').set(after.id, after)
}
const after = used()
grown('rows of the control state, with their indexes', before, after)
const fullStartMs = performance.now()
Bun.gc(true)
console.log(
  `full collection with the rows: ${(performance.now() - fullStartMs).toFixed(0)} ms; rows ${state.table('keys').size}, index ${index.size}`,
)
