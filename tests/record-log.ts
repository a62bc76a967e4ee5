// Records a golden log: what a build wrote into its control topic in a short life, and the digest that its own fold comes to.
// `bun tests/record-log.ts <name> [source tree]` makes tests/fixtures/logs/<name>.ndjson; `--restate <name>` adds the digest of this build's fold
// version to one that is there (after FOLD_VERSION was raised). One is recorded for each release; they are kept for ever.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { CONTROL } from '../src/state/fold.ts'
import {
  type GoldenHeader,
  type GoldenRecord,
  goldenDigest,
  goldenPath,
  LOGS,
  readGolden,
} from './fixtures/golden-log.ts'
import { MASTER_KEY } from './services/cluster.ts'
import { type GatewayProcess, startGateway } from './services/gateway.ts'

type Call = (method: string, path: string, body?: unknown, headers?: Record<string, string>) => Promise<{ id: string }>

/** Routes that a build does not have are left out: older builds know less. */
const caller =
  (gateway: GatewayProcess): Call =>
  async (method, path, body, headers) => {
    const answer = await gateway.request(`/admin/v1${path}`, { method, body, headers })
    const text = await answer.text()
    if (answer.ok) return JSON.parse(text) as { id: string }
    console.error(`left out: ${method} ${path}: ${answer.status}`)
    return { id: 'none' }
  }

const PASSWORD = 'a password of many words'

/** The first operator, a second one that is deleted, and a login. */
const people = async (call: Call): Promise<void> => {
  const ada = { username: 'ada', password: PASSWORD }
  await call('POST', '/auth/setup', { ...ada, confirm: PASSWORD })
  await call('POST', '/auth/login', ada)
  const { id } = await call('POST', '/operators', { username: 'bob', password: PASSWORD, confirm: PASSWORD })
  await call('DELETE', `/operators/${id}`)
}

const live = async (call: Call): Promise<void> => {
  await people(call)
  for (let n = 0; n < 4; n++) {
    const tenant = await call('POST', '/tenants', { slug: `tenant-${n}`, name: `Tenant ${n}` })
    await call('PUT', `/tenants/${tenant.id}`, { name: `Renamed ${n}`, plan: n % 2 === 0 ? 'gold' : null })
    const policy = await call('POST', '/policies', { name: `policy-${n}`, tenant_id: tenant.id, max_cost_usd: 0.5 + n })
    for (let m = 0; m < 3; m++) {
      const key = await call(
        'POST',
        '/keys',
        { tenant_id: tenant.id, name: `key ${m}`, scopes: m === 0 ? ['inference', 'usage:read'] : ['inference'] },
        m === 1 ? { 'Idempotency-Key': `golden-${n}` } : {},
      )
      if (m === 0) await call('PATCH', `/keys/${key.id}`, { routing_policy_id: policy.id })
      if (m === 1) await call('POST', `/keys/${key.id}/rotate`)
      if (m === 2) await call('DELETE', `/keys/${key.id}`)
    }
    const upstream = { name: `upstream-${n}`, kind: 'openai_compatible', base_url: 'http://127.0.0.1:9/v1' }
    const provider = await call('POST', '/providers', upstream)
    await call('PUT', `/providers/${provider.id}/credential`, { secret: 'not a secret', name: 'first' })
    const model = await call('POST', '/models', { name: `model-${n}`, provider_id: provider.id, priority: n })
    await call('PATCH', `/models/${model.id}`, { aliases: [`fast-${n}`], input_cost_per_million: 1.5 })
    await call('PUT', '/endpoints', {
      slug: `scope-${n}`,
      name: `Scope ${n}`,
      overrides: { forced_model: `model-${n}` },
    })
    await call('POST', '/overrides', { kind: 'block', target: `model:model-${n}`, reason: 'golden' })
    await call('POST', `/providers/${provider.id}/kill`, { kill: n % 2 === 0, reason: 'golden' })
    await call('PUT', '/budgets', {
      tenant_id: tenant.id,
      window: 'day',
      limit_usd: 10 + n,
      alert_thresholds: [0.5, 1],
    })
    await call('PUT', '/budgets', { tenant_id: tenant.id, window: 'month', limit_usd: 100 })
    await call('PUT', '/cache/policies', { name: `rule-${n}`, ttl_seconds: 60, enabled: true })
    const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
    const tool = await call('POST', '/tools', {
      name: `tool-${n}`,
      description: 'It is one',
      safety: 'safe',
      parameters,
    })
    await call('POST', `/tools/${tool.id}/enabled`, { enabled: false })
    await call('PUT', '/tool-policies', { name: `tools-${n}`, mode: 'automatic', max_steps: 3 + n })
    if (n === 3) {
      await call('DELETE', `/models/${model.id}`)
      await call('DELETE', `/providers/${provider.id}`)
      await call('DELETE', `/tenants/${tenant.id}?force=true`)
    }
  }
}

/** What another build exports, under the names that this one has for it. */
const moduleOf = async <Module>(root: string, path: string): Promise<Module> =>
  (await import(join(root, path))) as Module

const record = async (name: string, root: string): Promise<void> => {
  if (existsSync(goldenPath(name))) throw new Error(`${name} is recorded already: golden logs are never changed`)
  const gateway = startGateway({ root, settings: { worker: { enabled: false }, security: { master_key: MASTER_KEY } } })
  try {
    await gateway.until('serving')
    await live(caller(gateway))
    await gateway.end()
    const { embeddedLog } = await moduleOf<typeof import('../src/log/embedded.ts')>(root, 'src/log/embedded.ts')
    const { foldAgain } = await moduleOf<typeof import('../src/state/fold.ts')>(root, 'src/state/fold.ts')
    const { FOLD_VERSION } = await moduleOf<typeof import('../src/domain/control.ts')>(root, 'src/domain/control.ts')
    const { decisionMacKey } = await moduleOf<typeof import('../src/domain/decision.ts')>(
      root,
      'src/domain/decision.ts',
    )
    const log = embeddedLog({ dataDir: join(gateway.folder, 'data'), nowMs: Date.now })
    const signal = new AbortController().signal
    const fold = await foldAgain(log, decisionMacKey(Buffer.from(MASTER_KEY, 'base64')), signal)
    const records: GoldenRecord[] = []
    for await (const batch of log.read(CONTROL, 0, 0, signal)) {
      for (const { atMs, value } of batch) records.push({ at: atMs, value: Buffer.from(value!).toString('base64') })
      if (records.length >= fold.next) break
    }
    await log.close()
    const header: GoldenHeader = { recorded_by: name, tip: fold.tip, digests: { [FOLD_VERSION]: fold.state.digest() } }
    mkdirSync(LOGS, { recursive: true })
    writeFileSync(goldenPath(name), [header, ...records].map((line) => `${JSON.stringify(line)}\n`).join(''))
    console.log(`recorded ${name}: ${records.length} records, fold version ${FOLD_VERSION}`)
  } finally {
    await gateway.remove()
  }
}

const restate = (name: string): void => {
  const { header, records } = readGolden(name)
  const { digest, version } = goldenDigest(records)
  const known = header.digests[version]
  if (known !== undefined && known !== digest) throw new Error(`${name} has another digest at fold version ${version}`)
  const digests = { ...header.digests, [version]: digest }
  const [, ...lines] = readFileSync(goldenPath(name), 'utf8').split('\n')
  writeFileSync(goldenPath(name), [JSON.stringify({ ...header, digests }), ...lines].join('\n'))
}

const [first, second] = process.argv.slice(2)
if (first === '--restate' && second !== undefined) restate(second)
else if (first !== undefined) await record(first, resolve(second ?? join(import.meta.dir, '..')))
else console.error('say its name: bun tests/record-log.ts <name> [source tree]')
process.exit(first === undefined ? 1 : 0)
