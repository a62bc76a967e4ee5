// How long a start on a long chain takes: `bun tests/bench/start.ts [decisions]`. Prints both ways and whether they end in the same state.
import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ControlState, foldDecision } from '../../src/domain/control.ts'
import { type Decision, decisionMacKey, GENESIS, writeDecision } from '../../src/domain/decision.ts'
import type { Diagnostics } from '../../src/lib/diagnostics.ts'
import { sha256Hex } from '../../src/lib/digest.ts'
import { embeddedLog } from '../../src/log/embedded.ts'
import { CONTROL, foldAgain } from '../../src/state/fold.ts'
import { openKeyIndex } from '../../src/state/keys.ts'
import { openLiveState } from '../../src/state/live.ts'
import { writeSnapshot } from '../../src/state/snapshot.ts'

const AIM_MS = { log: 5_000, snapshot: 1_000 }
const count = Number(process.argv[2] ?? 100_000)
const macKey = decisionMacKey(new Uint8Array(32).fill(5))
const quiet: Diagnostics = { debug() {}, info() {}, warn() {}, error() {} }
const nowMs = () => Date.now()

/** A chain as it grows in use: tenants, mostly keys, a part of them renamed, rotated and revoked. */
const eventOf = (index: number): Decision['events'][number] => {
  if (index === 0)
    return { type: 'chain.started', data: { chain_id: 'chain_bench', partitions: { 'gateway.requests.v1': 12 } } }
  if (index <= 100) {
    const slug = `tenant-${index}`
    return { type: 'tenant.created', data: { id: `ten_${index}`, slug, name: slug, plan: null, managed_by: 'api' } }
  }
  const older = `key_${(index >> 1) + 100}`
  if (index % 10 === 7) return { type: 'api_key.changed', data: { id: older, name: `renamed ${index}` } }
  if (index % 10 === 8) return { type: 'api_key.rotated', data: { id: older, digest: sha256Hex(`rotated ${index}`) } }
  if (index % 10 === 9) return { type: 'api_key.revoked', data: { id: older } }
  const data = {
    id: `key_${index}`,
    tenant_id: `ten_${1 + (index % 100)}`,
    name: `key ${index}`,
    scopes: ['inference'],
    digest: sha256Hex(`s${index}`),
  }
  return {
    type: 'api_key.issued',
    data: { ...data, expires_at: null, routing_policy_id: null, rate_limits: null, managed_by: 'api' },
  }
}

const fill = async (dataDir: string) => {
  const log = embeddedLog({ dataDir, nowMs })
  const state = new ControlState()
  let parent = GENESIS
  let batch: { key: null; value: Uint8Array }[] = []
  for (let index = 0; index < count; index++) {
    const cause = index % 4 === 0 ? { id: sha256Hex(`cause ${index}`), body: sha256Hex(`body ${index}`) } : null
    const decision: Decision = {
      parent,
      at: new Date(nowMs()).toISOString(),
      actor: { type: 'key', id: 'key_admin' },
      by: 'ins_bench',
      cause,
      v: 1,
      events: [eventOf(index)],
    }
    const { bytes, id } = writeDecision(decision, macKey)
    const { malformed } = foldDecision(state, decision, id, nowMs())
    if (malformed !== null) throw new Error(malformed)
    parent = id
    batch.push({ key: null, value: bytes })
    if (batch.length < 200 && index < count - 1) continue
    await log.append(CONTROL, 0, batch)
    batch = []
  }
  await log.close()
}

const start = async (dataDir: string, snapshotDir: string | null) => {
  Bun.gc(true)
  const log = embeddedLog({ dataDir, nowMs })
  const startMs = performance.now()
  const cpu = process.cpuUsage()
  const live = await openLiveState({ log, macKey, dataDir: snapshotDir, nowMs, diagnostics: quiet })
  await live.ready()
  const stateMs = performance.now() - startMs
  openKeyIndex(live)
  const allMs = performance.now() - startMs
  const { user, system } = process.cpuUsage(cpu)
  const result = {
    stateMs,
    allMs,
    cpuMs: (user + system) / 1_000,
    digest: live.status().digest,
    tip: live.tip,
    keys: live.control.table('keys').size,
  }
  await live.close()
  await log.close()
  return result
}

const dataDir = await mkdtemp(join(tmpdir(), 'gatelog-bench-start-'))
try {
  await fill(dataDir)
  const whole = await start(dataDir, null)
  const log = embeddedLog({ dataDir, nowMs })
  const fold = await foldAgain(log, macKey, new AbortController().signal)
  await log.close()
  const writeStartMs = performance.now()
  writeSnapshot(dataDir, fold, nowMs())
  const writeMs = performance.now() - writeStartMs
  const { size } = await stat(join(dataDir, 'control.snapshot'))
  const short = await start(dataDir, dataDir)
  const line = (name: string, { stateMs, allMs, cpuMs }: typeof whole, aimMs: number) =>
    `${name}: ${stateMs.toFixed(0)} ms, with the key index ${allMs.toFixed(0)} ms, CPU ${cpuMs.toFixed(0)} ms (aim: under ${aimMs} ms)`
  console.log(`${count} decisions, embedded log, Bun ${Bun.version}`)
  console.log(line('from the log     ', whole, AIM_MS.log))
  console.log(line('from the snapshot', short, AIM_MS.snapshot))
  console.log(`snapshot: ${(size / 1e6).toFixed(1)} MB, written in ${writeMs.toFixed(0)} ms (by a thread of its own)`)
  const same = whole.digest === short.digest && whole.tip === short.tip
  console.log(`state: ${same ? 'equal' : 'DIFFERENT'} (digest ${whole.digest.slice(0, 16)}, ${whole.keys} keys)`)
  if (!same || whole.allMs > AIM_MS.log || short.allMs > AIM_MS.snapshot) process.exitCode = 1
} finally {
  await rm(dataDir, { recursive: true })
}
