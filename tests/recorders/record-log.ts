// Records a golden log: what a build wrote into its control topic in a short life, and the digest of its own fold.
// `bun tests/recorders/record-log.ts <name> [source tree]` makes tests/fixtures/logs/<name>.ndjson; `--restate <name>`
// adds the digest of this build's fold version to an existing one (after FOLD_VERSION was raised). One is recorded for
// each release; they are kept for ever.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { CONTROL } from '../../src/state/fold.ts'
import {
  type GoldenHeader,
  type GoldenRecord,
  goldenDigest,
  goldenPath,
  LOGS,
  readGolden,
} from '../fixtures/golden-log.ts'
import { MASTER_KEY } from '../services/cluster.ts'
import { type GatewayProcess, startGateway } from '../services/gateway.ts'
import { type Call, live, takeOver } from './golden-life.ts'
import { firstSettings, secondSettings, UPSTREAM_MODELS } from './golden-settings.ts'

const ROOT = resolve(import.meta.dir, '../..')

/** Routes that a build does not have are left out: older builds know less. Of this build every call has to succeed. */
const caller =
  (gateway: GatewayProcess, isOwn: boolean, used: Set<string>): Call =>
  async (method, path, body, headers = {}) => {
    const init = { method, body, headers, ...(headers.cookie === undefined ? {} : { key: null }) }
    const answer = await gateway.request(`/admin/v1${path}`, init)
    const text = await answer.text()
    const cookie = answer.headers.get('set-cookie')?.split(';')[0] ?? ''
    const revision = answer.headers.get('x-gateway-revision') ?? ''
    if (answer.ok) {
      used.add(`${method} ${templateOf(path)}`)
      return { id: 'none', ...(text === '' ? {} : (JSON.parse(text) as object)), revision, cookie }
    }
    if (isOwn) throw new Error(`${method} ${path}: ${answer.status} ${text}`)
    console.error(`left out: ${method} ${path}: ${answer.status}`)
    return { id: 'none', revision, cookie }
  }

/** `/keys/key_0199.../rotate` -> `/keys/{id}/rotate` */
const templateOf = (path: string): string =>
  path.split('?')[0]!.replace(/\/(?:[a-z]+_[0-9a-f-]{36}|[0-9a-f]{64})(?=\/|$)/, '/{id}')

/** Documented writes with a success answer that the recorder did not call. */
const unused = async (gateway: GatewayProcess, used: ReadonlySet<string>): Promise<string[]> => {
  const { paths } = (await (await gateway.request('/openapi.json')).json()) as {
    paths: Record<string, Record<string, { responses: object }>>
  }
  return Object.entries(paths)
    .filter(([path]) => path.startsWith('/admin/v1/'))
    .flatMap(([path, methods]) =>
      Object.entries(methods)
        .filter(([method, { responses }]) => method !== 'get' && Object.keys(responses).some((status) => status < '3'))
        .map(([method]) => `${method.toUpperCase()} ${path.slice('/admin/v1'.length)}`),
    )
    .filter((name) => !used.has(name))
}

/** A provider that lists models and answers every question. */
const startUpstream = () =>
  Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: ({ url }) => {
      if (url.endsWith('/models'))
        return Response.json({ data: UPSTREAM_MODELS.map((id) => ({ id, object: 'model' })) })
      const message = { role: 'assistant', content: 'Yes.' }
      const usage = { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 }
      const choices = [{ index: 0, finish_reason: 'stop', message }]
      return Response.json({ id: 'c', object: 'chat.completion', created: 1, model: 'm', choices, usage })
    },
  })

interface Recording {
  readonly gateway: GatewayProcess
  /** Its variables, as its next start finds them. */
  readonly env: Record<string, string>
}

const FURTHER_MS = 20 * 60_000

/**
 * A start with other settings, twenty minutes later and with a spool of another name. A session is used again, and an
 * operator gives up the instance that wrote the first part, which holds a part of a budget.
 */
const laterLife = async ({ gateway, env }: Recording, call: Call, cookie: string, baseUrl: string): Promise<void> => {
  const { id } = await call('PUT', '/budgets', { scope: { type: 'model', id: 'seeded' }, limit_usd: 1 })
  const body = { model: 'seeded', max_tokens: 10, messages: [{ role: 'user', content: 'Hello' }] }
  const answer = await gateway.request('/v1/chat/completions', { body })
  if (!answer.ok) throw new Error(`a completion: ${answer.status} ${await answer.text()}`)
  await answer.text()
  const { instances } = (await call('GET', '/instances')) as unknown as { instances: { id: string }[] }
  await gateway.end('SIGKILL')
  rmSync(join(gateway.folder, 'data/spool'), { recursive: true })
  writeFileSync(join(gateway.folder, 'clock'), String(FURTHER_MS))
  const path = join(gateway.folder, 'gateway.yaml')
  const settings = JSON.parse(readFileSync(path, 'utf8')) as object
  writeFileSync(path, JSON.stringify({ ...settings, bootstrap: secondSettings(baseUrl) }))
  env.GOLDEN_KEY = 'another-key-of-the-settings'
  gateway.start()
  await gateway.until('ready')
  await call('GET', '/auth/me', undefined, { cookie })
  await call('POST', `/instances/${instances[0]!.id}/retire`, { reason: 'its disk is lost' })
  await call('DELETE', `/budgets/${id}`)
  await takeOver(call)
}

/** What another build exports, under the names that this one has for it. */
const moduleOf = async <Module>(root: string, path: string): Promise<Module> =>
  (await import(join(root, path))) as Module

const record = async (name: string, root: string): Promise<void> => {
  if (existsSync(goldenPath(name))) throw new Error(`${name} is recorded already: golden logs are never changed`)
  const isOwn = root === ROOT
  const upstream = startUpstream()
  const baseUrl = `http://127.0.0.1:${upstream.port}/v1`
  const folder = mkdtempSync(join(tmpdir(), 'gatelog-golden-'))
  writeFileSync(join(folder, 'clock'), '0')
  const bootstrap = isOwn ? { bootstrap: firstSettings(baseUrl) } : {}
  const env = { FAULT_CLOCK: join(folder, 'clock'), GOLDEN_KEY: 'a-key-of-the-settings-itself' }
  const gateway = startGateway({
    ...{ root, folder, preload: [join(import.meta.dir, '../faults/preloads/clock.ts')] },
    env,
    settings: { worker: { enabled: false }, security: { master_key: MASTER_KEY }, ...bootstrap },
  })
  try {
    await gateway.until(isOwn ? 'ready' : 'serving')
    const used = new Set<string>()
    const call = caller(gateway, isOwn, used)
    const cookie = await live(call, baseUrl)
    if (isOwn) await laterLife({ gateway, env }, call, cookie, baseUrl)
    const left = isOwn ? await unused(gateway, used) : []
    if (left.length > 0) throw new Error(`no call uses ${left.join(', ')}: add it to golden-life.ts`)
    await gateway.end()
    const { embeddedLog } = await moduleOf<typeof import('../../src/log/embedded/log.ts')>(
      root,
      'src/log/embedded/log.ts',
    )
    const { foldAgain } = await moduleOf<typeof import('../../src/state/fold.ts')>(root, 'src/state/fold.ts')
    const { FOLD_VERSION } = await moduleOf<typeof import('../../src/domain/control.ts')>(root, 'src/domain/control.ts')
    const { decisionMacKey } = await moduleOf<typeof import('../../src/domain/kernel/decision.ts')>(
      root,
      'src/domain/kernel/decision.ts',
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
    await upstream.stop(true)
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
else if (first !== undefined) await record(first, resolve(second ?? ROOT))
else console.error('say its name: bun tests/recorders/record-log.ts <name> [source tree]')
process.exit(first === undefined ? 1 : 0)
