// keys.ts on a real broker: two instances, of which one still has the old master key as its current one while the
// rotation runs and is killed.
// `bun tests/faults/control/keys/keys-kafka.ts [--kills 5]`.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startKafka } from '../../../../infra/kafka/kafka.ts'
import { kafkaLog } from '../../../../src/log/kafka/log.ts'
import { TOPICS } from '../../../../src/log/topics.ts'
import { createContentKeys } from '../../../../src/state/data-keys/content-keys.ts'
import { openDataKeys } from '../../../../src/state/data-keys/data-keys.ts'
import type { DataKeyStore } from '../../../../src/state/data-keys/store.ts'
import { type ChainFold, foldAgain } from '../../../../src/state/fold.ts'
import { initTopics } from '../../../services/cluster.ts'
import { besideGateway, startCommand } from '../../../services/command.ts'
import { type GatewayProcess, startGateway } from '../../../services/gateway.ts'
import { testTopics } from '../../../services/kafka.ts'
import { quiet } from '../../../state/support.ts'
import { conclude, type Figure, numberArgument } from '../figures.ts'
import { breakIn, type Found, type Sealed } from './key-material.ts'

const PROVIDERS = 40
const COMPACTION_MS = 60_000
const PERSON = { username: 'Ada Lovelace', password: 'correct horse battery' }
const [older, newer] = [crypto.getRandomValues(new Uint8Array(32)), crypto.getRandomValues(new Uint8Array(32))]
const text = (key: Uint8Array): string => Buffer.from(key).toString('base64')

const settingsOf = (brokers: readonly string[], current: Uint8Array, ...accepted: readonly Uint8Array[]) => ({
  log: { kafka: { brokers: [...brokers], partitions: 1 } },
  security: { master_key: text(current), accepted_master_keys: accepted.map(text) },
  database: { url: 'postgres://nobody@127.0.0.1:1/nothing' },
  worker: { enabled: false },
})

/** The next start of the gateway has these settings. */
const configure = (gateway: GatewayProcess, settings: object): void => {
  const server = { host: '127.0.0.1', port: Number(new URL(gateway.url).port) }
  const data = { dir: join(gateway.folder, 'data') }
  writeFileSync(join(gateway.folder, 'gateway.yaml'), JSON.stringify({ server, data, ...settings }))
}

const command = (gateway: GatewayProcess, ...args: readonly string[]) =>
  startCommand([...args], besideGateway(gateway.folder), { output: 'ignore', errors: 'pipe' })

const call = async <Answer>(gateway: GatewayProcess, method: string, path: string, body?: unknown): Promise<Answer> => {
  const answer = await gateway.request(`/admin/v1${path}`, { method, body })
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`)
  return (await answer.json()) as Answer
}

const beside = async <Result>(
  brokers: readonly string[],
  masterKeys: readonly Uint8Array[],
  use: (fold: ChainFold, dataKeys: DataKeyStore) => Promise<Result> | Result,
): Promise<Result> => {
  const log = kafkaLog({ brokers, clientId: 'beside' })
  const shared = { log, instance: 'beside', dataDir: null, nowMs: Date.now, diagnostics: quiet }
  const dataKeys = await openDataKeys({ ...shared, masterKeys: () => masterKeys })
  try {
    await dataKeys.ready()
    return await use(await foldAgain(log, dataKeys.installation()!.decisionMac, new AbortController().signal), dataKeys)
  } finally {
    await dataKeys.close()
    await log.close()
  }
}

const restart = async (gateway: GatewayProcess, settings: object): Promise<void> => {
  await gateway.end()
  configure(gateway, settings)
  gateway.start()
  await gateway.until('serving')
}

const ran = async (gateway: GatewayProcess, ...args: readonly string[]): Promise<void> => {
  const child = command(gateway, ...args)
  if ((await child.exited) !== 0) throw new Error(`${args.join(' ')}: ${await new Response(child.stderr).text()}`)
}

const rotation = async (
  [first, second]: readonly [GatewayProcess, GatewayProcess],
  brokers: readonly string[],
  kills: number,
): Promise<Figure> => {
  const secrets = new Map<string, string>()
  const put = async (gateway: GatewayProcess, id: string, secret: string) => {
    await call(gateway, 'PUT', `/providers/${id}/credential`, { secret })
    secrets.set(id, secret)
  }
  for (let n = 0; n < PROVIDERS; n++) {
    const body = { name: `p${n}`, kind: 'openai_compatible', base_url: 'http://127.0.0.1:1/v1' }
    const { id } = await call<{ id: string }>(first, 'POST', '/providers', body)
    await put(first, id, `first of ${id}`)
  }
  const ids = [...secrets.keys()]
  await restart(first, settingsOf(brokers, newer, older))
  // The second one goes on sealing with the old key until it is started again.
  let [stopped, written] = [false, 0]
  const writing = (async () => {
    while (!stopped) await put(second, ids[written % PROVIDERS]!, `secret ${++written}`)
  })()
  for (let n = 0; n < kills; n++) {
    const child = command(first, 'keys', 'rotate')
    await Bun.sleep(300 + Math.random() * 1_500)
    child.kill('SIGKILL')
    await child.exited
  }
  stopped = true
  await writing
  await restart(second, settingsOf(brokers, newer, older))
  await ran(first, 'keys', 'rotate')
  await ran(first, 'keys', 'retire')
  await restart(second, settingsOf(brokers, newer))
  const lost = await beside(brokers, [newer], ({ state }, dataKeys) => {
    const opened = ({ id, credential }: { id: string; credential: { key_id: string; sealed: string } | null }) =>
      credential === null ? null : dataKeys.open(id, credential.key_id, credential.sealed)
    return ids.filter((id) => opened(state.table('providers').get(id)!) !== secrets.get(id)).length
  })
  await first.end()
  configure(first, settingsOf(brokers, older))
  const old = command(first, 'start')
  const [code, said] = [await old.exited, await new Response(old.stderr).text()]
  const refused = code === 1 && /is wrapped by the master key \w{16}, this instance has \w{16}/.test(said)
  const login = await second.request('/admin/v1/auth/login', { body: PERSON, key: null })
  const figure =
    `${written} secrets written by an instance whose current key was the old one, ${lost} of ` +
    `${PROVIDERS} lost; the first master key alone is ` +
    `${refused ? 'refused by name' : 'NOT REFUSED'}; the operator ` +
    `${login.ok ? 'signs in' : 'CANNOT SIGN IN'}`
  const what = 'two instances on Kafka: the master key rotated under a writer, the rotation killed and run again'
  return { row: 'keys', what, figure, n: kills, good: lost === 0 && refused && login.ok && written > 0 }
}

/** Looks until nothing opens, for as long as a compaction takes. */
const untilClosed = async (look: () => Found): Promise<Found> => {
  for (const deadline = performance.now() + COMPACTION_MS; ; await Bun.sleep(500)) {
    const found = look()
    if (found.opened === 0 || performance.now() > deadline) return found
  }
}

const erasure = async (gateway: GatewayProcess, brokers: readonly string[], folder: string): Promise<Figure> => {
  const tenant = await call<{ id: string }>(gateway, 'POST', '/tenants', { slug: 'captured', name: 'Captured' })
  const samples = await beside(brokers, [newer], async ({ state }, dataKeys) => {
    const content = createContentKeys({ live: { control: state }, dataKeys, nowMs: Date.now, diagnostics: quiet })
    const sealed: Sealed[] = []
    for (let n = 0; n < 20; n++) {
      const about = JSON.stringify([tenant.id, `req_${n}`])
      sealed.push({ ...(await content.seal(tenant.id, `req_${n}`, `prompt ${n}`)), about })
    }
    const [, person] = [...state.table('operators').rows()][0]!
    return [...sealed, { keyId: person.key_id, about: person.id, sealed: person.sealed }]
  })
  const { operators } = await call<{ operators: { id: string }[] }>(gateway, 'GET', '/operators')
  await call(gateway, 'DELETE', `/tenants/${tenant.id}/content`)
  await call(gateway, 'DELETE', `/operators/${operators[0]!.id}`)
  const look = () => breakIn([folder], [older, newer], samples)
  const atOnce = look()
  // The settings of an impatient operator: small segments, compacted soon. The next record closes the segment.
  const topics = testTopics(brokers)
  await topics.set(TOPICS.keys.name, {
    'segment.ms': '100',
    'min.cleanable.dirty.ratio': '0.001',
    'max.compaction.lag.ms': '100',
    'file.delete.delay.ms': '100',
  })
  await Bun.sleep(500)
  const [provider] = (await call<{ providers: { id: string }[] }>(gateway, 'GET', '/providers')).providers
  await call(gateway, 'PUT', `/providers/${provider!.id}/credential`, { secret: 'one more record' })
  const compacted = await untilClosed(look)
  topics.close()
  const n = samples.length
  return {
    row: 'erasure',
    what: "on Kafka: the broker's and the gateways' folders searched, with both master keys",
    figure:
      `opened at once ${atOnce.opened} of ${n} (the topic is not compacted yet), after compaction ` +
      `${compacted.opened} (tried ${compacted.keys} data keys of ${compacted.files} files)`,
    n,
    good: compacted.opened === 0 && compacted.keys > 0,
  }
}

const run = async (kills: number): Promise<readonly Figure[]> => {
  const folder = mkdtempSync(join(tmpdir(), 'gatelog-keys-kafka-'))
  const kafka = await startKafka({ brokers: 1, dataDir: join(folder, 'kafka') })
  const gateways: GatewayProcess[] = []
  try {
    const settings = settingsOf(kafka.bootstrap, older, newer)
    await initTopics(settings, folder)
    for (const name of ['first', 'second']) gateways.push(startGateway({ settings, folder: join(folder, name) }))
    const [first, second] = gateways as [GatewayProcess, GatewayProcess]
    for (const gateway of gateways) await gateway.until('serving', 60_000)
    const setup = { ...PERSON, confirm: PERSON.password }
    const made = await first.request('/admin/v1/auth/setup', { body: setup, key: null })
    if (made.status !== 201) throw new Error(`set-up: ${made.status}`)
    const rotated = await rotation([first, second], kafka.bootstrap, kills)
    // Its folder holds wrapped keys too: what is erased goes from there when it follows the log.
    await restart(first, settingsOf(kafka.bootstrap, newer))
    return [rotated, await erasure(second, kafka.bootstrap, folder)]
  } finally {
    for (const gateway of gateways) await gateway.remove()
    await kafka.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

if (import.meta.main) conclude(await run(numberArgument('kills', 5)))
