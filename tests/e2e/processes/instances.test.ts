// Instances on a real broker that are not as they should be: one has a clock that is an hour ahead, one runs on a copy
// of another one's data folder.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Kafka, startKafka } from '../../../infra/kafka/kafka.ts'
import { initTopics, kafkaSettings, NO_READ_MODELS } from '../../services/cluster.ts'
import { eventually } from '../../services/eventually.ts'
import { type GatewayProcess, startGateway } from '../../services/gateway.ts'

const HOUR_MS = 3_600_000
/** What counts as the present. */
const NOW_MS = 10_000
const PRELOADED = join(import.meta.dir, '../../faults/preloads/clock.ts')

let folder: string
let kafka: Kafka
let right: GatewayProcess
let ahead: GatewayProcess
let copy: GatewayProcess | undefined
let settings: Readonly<Record<string, unknown>>

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'gatelog-instances-'))
  kafka = await startKafka({ brokers: 1, dataDir: join(folder, 'kafka') })
  settings = { ...kafkaSettings(kafka.bootstrap), ...NO_READ_MODELS }
  await initTopics(settings, folder)
  right = startGateway({ settings })
  await right.until('serving', 60_000)
  const clock = join(folder, 'clock')
  writeFileSync(clock, String(HOUR_MS))
  ahead = startGateway({ settings, preload: [PRELOADED], env: { FAULT_CLOCK: clock } })
  await ahead.until('serving', 60_000)
}, 180_000)

afterAll(async () => {
  await copy?.remove()
  await ahead?.remove()
  await right?.remove()
  await kafka?.stop()
  rmSync(folder, { recursive: true, force: true })
}, 60_000)

const checkOf = async (gateway: GatewayProcess, name: string): Promise<string> => {
  const { checks } = (await (await gateway.request('/ready')).json()) as { checks: Record<string, string> }
  return checks[name] ?? 'not there'
}
const metricOf = async (gateway: GatewayProcess, name: string): Promise<number> => {
  const text = await (await gateway.request('/metrics')).text()
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1])
}
type Shown = Readonly<Record<string, string & number & boolean>>
const instancesOf = async (gateway: GatewayProcess): Promise<readonly Shown[]> => {
  const { instances } = (await (await gateway.request('/admin/v1/instances')).json()) as { instances: Shown[] }
  return instances.filter(({ live }) => live)
}

// docs/behaviour.md: "Time and windows"
test('a clock that is an hour ahead is measured, named and not used', async () => {
  await eventually('it is named', async () => (await checkOf(ahead, 'clock')).startsWith('degraded'))
  expect(await checkOf(ahead, 'clock')).toMatch(
    /^degraded: the clock of this machine is 3(600|599) s ahead of the brok/,
  )
  expect(await checkOf(right, 'clock')).toBe('ok')
  expect(Math.abs((await metricOf(ahead, 'gateway_clock_ahead_seconds')) - HOUR_MS / 1_000)).toBeLessThan(2)
  expect(await metricOf(right, 'gateway_clock_ahead_seconds')).toBe(0)

  const made = await ahead.request('/admin/v1/tenants', { body: { slug: 'ahead', name: 'Ahead' } })
  const tenant = (await made.json()) as { id: string; created_at: string }
  expect(Math.abs(Date.parse(tenant.created_at) - Date.now())).toBeLessThan(NOW_MS)
  const expires_at = new Date(Date.now() + 600_000).toISOString()
  const issued = await ahead.request('/admin/v1/keys', {
    body: { tenant_id: tenant.id, name: 'soon', scopes: ['inference'], expires_at },
  })
  const { plaintext } = (await issued.json()) as { plaintext: string }
  for (const gateway of [ahead, right])
    expect((await gateway.request('/v1/models', { key: plaintext })).status).toBe(200)

  const body = { model: 'sandbox-echo', messages: [{ role: 'user', content: 'Hello' }] }
  const answer = await ahead.request('/v1/chat/completions', { body })
  await answer.text()
  // A request's id holds its time, as its outcome does.
  const [, high, low] = /^req_([0-9a-f]{8})-([0-9a-f]{4})/.exec(answer.headers.get('x-request-id')!)!
  expect(Math.abs(Number.parseInt(`${high}${low}`, 16) - Date.now())).toBeLessThan(NOW_MS)
}, 60_000)

// docs/behaviour.md: "Admin writes"
test('every instance lists the live ones with how far they are', async () => {
  const [own, other] = await eventually('both are known', async () => {
    const found = await instancesOf(right)
    return found.length === 2 && found.every(({ lag_records }) => lag_records === 0) && found
  })
  expect(own).toMatchObject({ self: true, degraded: null })
  expect(other).toMatchObject({ self: false, offset: own!.offset, tip: own!.tip, digest: own!.digest })
  expect(Math.abs(other!.clock_ahead_ms! - HOUR_MS)).toBeLessThan(2_000)
  for (const each of [own, other]) {
    expect(each).toMatchObject({ build: expect.any(String), stored: each!.offset, accounts: 0 })
    expect(Math.abs(Date.parse(each!.announced_at!) - Date.now())).toBeLessThan(NOW_MS)
  }
}, 60_000)

// docs/behaviour.md: "Admin writes"
test('a copy of a data folder is named by both, with what to do', async () => {
  const copied = join(folder, 'copied')
  cpSync(join(right.folder, 'data'), join(copied, 'data'), { recursive: true })
  copy = startGateway({ settings, folder: copied })
  await copy.until('serving', 60_000)
  const both = [right, copy]
  await eventually('both name it', async () => {
    const said = await Promise.all(both.map((gateway) => checkOf(gateway, 'instances')))
    return said.every((text) => /^degraded: another process announces itself as .* data\.dir was copied/.test(text))
  })
  expect(await metricOf(right, 'gateway_instance_name_shared')).toBe(1)
  await copy.remove()
  await eventually('it is over', async () => (await checkOf(right, 'instances')) === 'ok')
  expect(await metricOf(right, 'gateway_instance_name_shared')).toBe(0)
}, 120_000)
