// Measures what a million API keys cost the serving process: `bun tests/bench/keys/keys.ts [keys]`.
// Writes a log of keys and starts on it twice: without a snapshot, and from the snapshot that a thread of the first
// start wrote. `keys-process.ts` is the measured process.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { EventRecord } from '../../../src/domain/kernel/decision.ts'
import { sha256Hex } from '../../../src/lib/crypto/digest.ts'
import { newId } from '../../../src/lib/crypto/ids.ts'
import { tenantCreated } from '../../domain/world.ts'
import { macKey } from '../../state/support.ts'
import { writeDecisions } from '../long-logs/written-decisions.ts'

const TENANTS = 1_000
/** Events in a decision: what fits into 64 KiB. */
const TOGETHER = 150

const keyIssued = (number: number): EventRecord => ({
  type: 'api_key.issued',
  data: {
    id: newId('key'),
    tenant_id: `ten_${number % TENANTS}`,
    name: `key ${number}`,
    scopes: ['inference'],
    digest: sha256Hex(`secret ${number}`),
    expires_at: number % 3 === 0 ? new Date(1_800_000_000_000 + number * 997).toISOString() : null,
    routing_policy_id: null,
    rate_limits: null,
    managed_by: 'api',
  },
})

/** Afterwards some keys are renamed one by one: what is kept of the last records is then of their usual size. */
const RENAMED = 12_000

const keyRenamed = (id: string, number: number): EventRecord => ({
  type: 'api_key.changed',
  data: { id, name: `renamed ${number}` },
})

/** The events of each decision. */
function* decisions(keys: number): Generator<readonly EventRecord[]> {
  yield [{ type: 'chain.started', data: { chain_id: 'chain_bench', partitions: { 'gateway.requests.v1': 12 } } }]
  for (let number = 0; number < TENANTS; number++) yield [tenantCreated(`ten_${number}`, `tenant-${number}`)]
  const ids: string[] = []
  for (let number = 0; number < keys; ) {
    const issued = Array.from({ length: Math.min(TOGETHER, keys - number) }, () => keyIssued(number++))
    ids.push(String(issued[0]!.data.id))
    yield issued
  }
  for (let number = 0; number < RENAMED; number++) yield [keyRenamed(ids[number % ids.length]!, number)]
}

const HARDLY_ANY = 1_000
const count = Number(process.argv[2] ?? 1_000_000)
const dataDir = await mkdtemp(join(tmpdir(), 'gatelog-bench-keys-'))
const command = (folder: string, keys: number, ...more: string[]) => [
  process.execPath,
  join(import.meta.dir, 'keys-process.ts'),
  join(dataDir, folder),
  String(keys),
  ...more,
]
try {
  await writeDecisions(join(dataDir, 'few'), decisions(HARDLY_ANY), macKey)
  const decided = await writeDecisions(join(dataDir, 'many'), decisions(count), macKey)
  console.log(
    `${count} keys of ${TENANTS} tenants, issued and some renamed in ${decided} decisions; Bun ${Bun.version}`,
  )
  for (const from of ['log', 'snapshot']) {
    const base = await new Response(Bun.spawn(command('few', HARDLY_ANY, 'log')).stdout).text()
    const child = Bun.spawn(command('many', count, from, base.trim()), { stdout: 'inherit', stderr: 'inherit' })
    if ((await child.exited) !== 0) process.exitCode = 1
  }
} finally {
  await rm(dataDir, { recursive: true, force: true })
}
