// C8: a key revoked on one instance is used on the two others without a pause. Prints two lags for each of them: from
// sending the DELETE to receiving the first 401, and from the answer to the DELETE to sending the request that gets the
// first 401 (0: no request after the answer was accepted).
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startKafka } from '../../../infra/kafka/kafka.ts'
import { initTopics, kafkaSettings } from '../../services/cluster.ts'
import { type GatewayProcess, startGateway } from '../../services/gateway.ts'
import { percentiles } from '../oracle.ts'

const REVOCATIONS = Number(process.argv[2] ?? 500)

const folder = mkdtempSync(join(tmpdir(), 'gatelog-revocation-'))
const kafka = await startKafka({ brokers: 1, dataDir: join(folder, 'kafka') })
const settings = { ...kafkaSettings(kafka.bootstrap), worker: { enabled: false } }
await initTopics(settings, folder)
const gateways: GatewayProcess[] = []
for (let i = 0; i < 3; i++) {
  gateways.push(startGateway({ settings }))
  await gateways[i]!.until('serving', 60_000)
}
const [first, ...others] = gateways as [GatewayProcess, ...GatewayProcess[]]
const tenant = (await (
  await first.request('/admin/v1/tenants', { body: { slug: 'revocation', name: 'revocation' } })
).json()) as { id: string }

/**
 * Sends requests until the key is refused. Returns the number of accepted requests that began after `since` and the
 * time of the first refusal.
 */
const hammer = async (gateway: GatewayProcess, key: string, sentAt: () => number, revoked: () => number | null) => {
  let acceptedAfter = 0
  for (;;) {
    const startedAt = performance.now()
    const answer = await gateway.request('/v1/models', { key })
    await answer.arrayBuffer()
    const since = revoked()
    if (answer.status === 401)
      return {
        fromSendMs: performance.now() - sentAt(),
        lagMs: since === null ? 0 : Math.max(0, startedAt - since),
        acceptedAfter,
      }
    if (since !== null && startedAt > since) acceptedAfter++
  }
}

const lags: number[] = []
const fromSend: number[] = []
const applied = new Map<string, number>()
let acceptedAfter = 0
for (let i = 0; i < REVOCATIONS; i++) {
  const made = await first.request('/admin/v1/keys', {
    body: { tenant_id: tenant.id, name: `key ${i}`, scopes: ['inference'] },
  })
  const { id, plaintext } = (await made.json()) as { id: string; plaintext: string }
  const revision = made.headers.get('X-Gateway-Revision')!
  await Promise.all(
    others.map(async (gateway) =>
      (
        await gateway.request('/v1/models', { key: plaintext, headers: { 'X-Gateway-Min-Revision': revision } })
      ).arrayBuffer(),
    ),
  )
  let revokedAt: number | null = null
  let sentAt = performance.now()
  const hammers = others.map((gateway) =>
    hammer(
      gateway,
      plaintext,
      () => sentAt,
      () => revokedAt,
    ),
  )
  sentAt = performance.now()
  const answer = await first.request(`/admin/v1/keys/${id}`, { method: 'DELETE' })
  revokedAt = performance.now()
  await answer.arrayBuffer()
  const by = answer.headers.get('X-Gateway-Applied-By') ?? 'none'
  applied.set(by, (applied.get(by) ?? 0) + 1)
  for (const result of await Promise.all(hammers)) {
    lags.push(result.lagMs)
    fromSend.push(result.fromSendMs)
    acceptedAfter += result.acceptedAfter
  }
}
const { p50, p99, max } = percentiles(lags)
const whole = percentiles(fromSend)
console.log(
  `revocation: ${REVOCATIONS} revocations, ${gateways.length} instances, ${lags.length} observations on the others`,
)
console.log(
  'from the DELETE being sent to a 401 on another instance ms: p50 ' +
    `${whole.p50.toFixed(2)}, p99 ${whole.p99.toFixed(2)}, max ${whole.max.toFixed(2)}`,
)
console.log(
  `lag after the answer ms: p50 ${p50.toFixed(2)}, p99 ${p99.toFixed(2)}, max ${max.toFixed(2)}; requests accepted ` +
    `after the answer ${acceptedAfter}; X-Gateway-Applied-By: ${JSON.stringify(Object.fromEntries(applied))}`,
)
for (const gateway of gateways) await gateway.remove()
await kafka.stop()
rmSync(folder, { recursive: true, force: true })
process.exit(whole.p99 < 50 && acceptedAfter === 0 ? 0 : 1)
