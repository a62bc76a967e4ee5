// Measures a start on a long chain: `bun tests/bench/long-logs/start.ts [decisions]`.
// Writes the log, then starts on it as a gateway does, from the log and from a snapshot, each in a separate process.
// Prints both times and whether both starts end in the same state.
import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ControlState, foldDecision } from '../../../src/domain/control.ts'
import { type Decision, decisionMacKey, GENESIS, writeDecision } from '../../../src/domain/kernel/decision.ts'
import { sha256Hex } from '../../../src/lib/crypto/digest.ts'
import type { Diagnostics } from '../../../src/lib/process/diagnostics.ts'
import { embeddedLog } from '../../../src/log/embedded/log.ts'
import { LOG_MODULE } from '../../../src/log/open-log.ts'
import { CONTROL, foldAgain } from '../../../src/state/fold.ts'
import { writeSnapshot } from '../../../src/state/history/snapshot.ts'
import { openKeyIndex } from '../../../src/state/indexes/api-keys.ts'
import { openLiveState } from '../../../src/state/live/live.ts'

const AIM_MS = { log: 5_000, snapshot: 1_000 }
const [given = '100000', folder, way] = process.argv.slice(2)
const count = Number(given)
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

interface Start {
  readonly stateMs: number
  readonly allMs: number
  readonly cpuMs: number
  readonly rssBytes: number
  readonly digest: string
  readonly tip: string
  readonly keys: number
}

const start = async (dataDir: string, snapshotDir: string | null): Promise<Start> => {
  const log = embeddedLog({ dataDir, nowMs })
  const ahead = { ...LOG_MODULE, logOptions: { adapter: 'embedded', dataDir, retentionMs: null } }
  const startMs = performance.now()
  const cpu = process.cpuUsage()
  const live = await openLiveState({ log, macKey, dataDir: snapshotDir, nowMs, diagnostics: quiet, readAhead: ahead })
  await live.ready()
  const stateMs = performance.now() - startMs
  openKeyIndex(live)
  const allMs = performance.now() - startMs
  const { user, system } = process.cpuUsage(cpu)
  const result = {
    stateMs,
    allMs,
    cpuMs: (user + system) / 1_000,
    rssBytes: process.resourceUsage().maxRSS * 1024,
    digest: live.status().digest,
    tip: live.tip,
    keys: live.control.table('keys').size,
  }
  await live.close()
  await log.close()
  return result
}

const startApart = async (dataDir: string, way: 'log' | 'snapshot'): Promise<Start> => {
  const command = [process.execPath, import.meta.path, given, dataDir, way]
  const child = Bun.spawn(command, { stdout: 'pipe', stderr: 'inherit' })
  const text = await new Response(child.stdout).text()
  const code = await child.exited
  if (code !== 0) throw new Error(`the start from the ${way} ended with ${child.signalCode ?? code}`)
  return JSON.parse(text)
}

const writeSnapshotOf = async (dataDir: string): Promise<number> => {
  const log = embeddedLog({ dataDir, nowMs })
  const fold = await foldAgain(log, macKey, new AbortController().signal)
  await log.close()
  const startMs = performance.now()
  writeSnapshot(dataDir, fold, nowMs())
  return performance.now() - startMs
}

const measure = async (dataDir: string): Promise<void> => {
  await fill(dataDir)
  const whole = await startApart(dataDir, 'log')
  const writeMs = await writeSnapshotOf(dataDir)
  const { size } = await stat(join(dataDir, 'control.snapshot'))
  const short = await startApart(dataDir, 'snapshot')
  const line = (name: string, { stateMs, allMs, cpuMs, rssBytes }: Start, aimMs: number) =>
    `${name}: ${stateMs.toFixed(0)} ms, with the key index ${allMs.toFixed(0)} ms, CPU ` +
    `${cpuMs.toFixed(0)} ms (aim: under ${aimMs} ms), ${(rssBytes / 1e6).toFixed(0)} MB at most`
  console.log(`${count} decisions, embedded log, Bun ${Bun.version}`)
  console.log(line('from the log     ', whole, AIM_MS.log))
  console.log(line('from the snapshot', short, AIM_MS.snapshot))
  console.log(`snapshot: ${(size / 1e6).toFixed(1)} MB, written in ${writeMs.toFixed(0)} ms (by a thread of its own)`)
  const same = whole.digest === short.digest && whole.tip === short.tip
  console.log(`state: ${same ? 'equal' : 'DIFFERENT'} (digest ${whole.digest.slice(0, 16)}, ${whole.keys} keys)`)
  if (!same || whole.allMs > AIM_MS.log || short.allMs > AIM_MS.snapshot) process.exitCode = 1
}

if (folder !== undefined) console.log(JSON.stringify(await start(folder, way === 'snapshot' ? folder : null)))
else {
  const dataDir = await mkdtemp(join(tmpdir(), 'gatelog-bench-start-'))
  try {
    await measure(dataDir)
  } finally {
    await rm(dataDir, { recursive: true })
  }
}
