// R12: a start while the broker is away: `bun tests/faults/gateway/start-without-broker.ts [--starts 3]`.
// With a snapshot the gateway shows and serves everything as last known, and refuses writes of every kind, which are
// not carried out afterwards either. Without a snapshot it serves nothing.
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { conclude, type Figure, numberArgument } from '../control/figures.ts'
import { startOracle } from '../oracle.ts'
import { failedOf, failuresText, openBroker } from '../rig.ts'

const STARTS = numberArgument('starts', 3)
const MOST_WRITE_MS = 6_000
const WITHOUT_MS = 15_000
const LISTS = [
  'tenants',

  'providers',
  'models',
  'policies',
  'endpoints',
  'budgets',
  'tools',
  'operators',
]

interface Write {
  readonly method: 'POST' | 'PUT' | 'DELETE'
  readonly path: string
  readonly body?: Readonly<Record<string, unknown>>
}

const broker = await openBroker()
const gateway = broker.gateway()
await gateway.until('serving', 60_000)

const made = async (method: Write['method'], path: string, body: object): Promise<string> => {
  const answer = await gateway.request(`/admin/v1/${path}`, { method, body })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`)
  return (JSON.parse(text) as { id: string }).id
}

/** One of everything, so that each can be changed and taken away too. */
const furnish = async (): Promise<readonly Write[]> => {
  const tenant_id = await made('POST', 'tenants', { slug: 'snapshotted', name: 'in the snapshot' })
  LISTS.push(`keys?tenant_id=${tenant_id}`)
  const key = await made('POST', 'keys', { tenant_id, name: 'resident', scopes: ['keys:admin'] })
  const provider_id = await made('POST', 'providers', { name: 'vendor', kind: 'sandbox' })
  const model = await made('POST', 'models', { name: 'resident', provider_id })
  const policy = await made('POST', 'policies', { tenant_id, name: 'resident' })
  const endpoint = await made('PUT', 'endpoints', { tenant_id, slug: 'resident' })
  const budget = await made('PUT', 'budgets', { tenant_id, window: 'day', limit_usd: 1 })
  const operator = await made('POST', 'operators', { username: 'alan', password: 'correct horse battery' })
  return [
    { method: 'POST', path: 'tenants', body: { slug: 'not-now', name: 'refused' } },
    { method: 'POST', path: 'keys', body: { tenant_id, name: 'not-now', scopes: ['keys:admin'] } },
    { method: 'POST', path: 'providers', body: { name: 'not-now', kind: 'sandbox' } },
    { method: 'POST', path: 'models', body: { name: 'not-now', provider_id } },
    { method: 'POST', path: 'policies', body: { tenant_id, name: 'not-now' } },
    { method: 'POST', path: 'tools', body: { tenant_id, owner: 'tenant', name: 'not-now' } },
    { method: 'POST', path: 'operators', body: { username: 'not-now', password: 'correct horse battery' } },
    { method: 'PUT', path: 'endpoints', body: { tenant_id, slug: 'not-now' } },
    { method: 'PUT', path: 'budgets', body: { tenant_id, window: 'month', limit_usd: 100 } },
    { method: 'PUT', path: `providers/${provider_id}/credential`, body: { secret: 'sk-not-now' } },
    ...[
      ['tenants', tenant_id],
      ['keys', key],
      ['models', model],
      ['policies', policy],
      ['endpoints', endpoint],
      ['budgets', budget],
      ['operators', operator],
    ].map(([noun, id]): Write => ({ method: 'DELETE', path: `${noun}/${id}` })),
  ]
}
const writes = await furnish()

/** Fields that no decision sets: a provider's health, spent amounts, times of the last use. */
const MOVING = /^(health|(spent|reserved|remaining|overrun)_.*|last_.*)$/
const decided = (text: string): string =>
  JSON.stringify(JSON.parse(text, (name, value) => (MOVING.test(name) ? undefined : value)))

/** What is shown of everything. */
const shown = async (): Promise<{ readonly text: string; readonly ok: number }> => {
  const answers = await Promise.all(LISTS.map((noun) => gateway.request(`/admin/v1/${noun}`)))
  const texts = await Promise.all(answers.map((answer) => answer.text()))
  return { text: texts.map(decided).join('\n'), ok: answers.filter(({ ok }) => ok).length }
}
await gateway.end()
gateway.start()
await gateway.until('serving', 60_000)
const before = await shown()
await gateway.end()

const fromSnapshot = async (): Promise<Figure> => {
  const servingMs: number[] = []
  const counts = { refused: 0, asked: 0, reads: 0, readsAsked: 0, alike: 0, served: 0, failed: 0, slowestMs: 0 }
  const seen: string[] = []
  let failures = ''
  await broker.proxy.refuse()
  for (let start = 0; start < STARTS; start++) {
    gateway.start()
    servingMs.push(await gateway.until('serving', 60_000))
    const oracle = startOracle(() => gateway, 4, 'sandbox-echo')
    const state = await shown()
    counts.reads += state.ok
    counts.readsAsked += LISTS.length
    if (state.text === before.text) counts.alike++
    const answers = await Promise.all(
      writes.map(async ({ method, path, body }) => {
        const startedMs = performance.now()
        const answer = await gateway.request(`/admin/v1/${path}`, { method, ...(body === undefined ? {} : { body }) })
        await answer.text()
        counts.slowestMs = Math.max(counts.slowestMs, performance.now() - startedMs)
        if (answer.status < 500) seen.push(`${method} ${path.split('/')[0]} ${answer.status}`)
        return answer.status
      }),
    )
    counts.asked += answers.length
    counts.refused += answers.filter((status) => status >= 500).length
    await oracle.stop()
    counts.served += oracle.complete.size
    counts.failed += failedOf(oracle)
    failures = failuresText(oracle)
    await gateway.end('SIGKILL')
  }
  await broker.proxy.accept()
  gateway.start()
  // Without a worker the gateway may never become ready.
  await gateway.until('ready', 60_000).catch(() => gateway.until('serving', 60_000))
  await Bun.sleep(2_000)
  const after = await shown()
  const isUntouched = after.text === before.text
  return {
    row: 'R12',
    what: `started while the broker is away, from a snapshot, ${STARTS} times`,
    figure:
      `serving after ${(Math.max(...servingMs) / 1_000).toFixed(1)} s at most; writes of ${writes.length} ` +
      `kinds refused ${counts.refused} of ` +
      `${counts.asked}${seen.length === 0 ? '' : ` (not: ${seen.join(', ')})`}, the slowest after ` +
      `${(counts.slowestMs / 1_000).toFixed(1)} s; ` +
      `reads answered ${counts.reads} of ${counts.readsAsked}, all as it was last known ${counts.alike} of ` +
      `${STARTS}; inference served ${counts.served}, failed ${counts.failed} (${failures}); afterwards ` +
      `${isUntouched ? 'nothing is changed' : 'something is changed'}`,
    n: counts.asked,
    good:
      counts.refused === counts.asked &&
      counts.reads === counts.readsAsked &&
      counts.alike === STARTS &&
      counts.served > 0 &&
      counts.failed === 0 &&
      counts.slowestMs < MOST_WRITE_MS &&
      isUntouched,
  }
}

/** Nothing to start from: it must not serve, nor open the set-up anew. */
const withoutSnapshot = async (): Promise<Figure> => {
  await gateway.end('SIGKILL')
  await broker.proxy.refuse()
  const said = new Map<string, number>()
  let wrong = 0
  for (let start = 0; start < STARTS; start++) {
    for (const name of ['control.snapshot', 'control-records', 'control-records.older'])
      rmSync(join(gateway.folder, 'data', name), { force: true })
    gateway.start()
    const end = await Promise.race([gateway.exited, Bun.sleep(WITHOUT_MS)])
    const paths = ['/v1/models', '/admin/v1/tenants', '/admin/v1/setup']
    const statuses = await Promise.all(
      paths.map(async (path) => (await gateway.request(path).catch(() => null))?.status ?? 0),
    )
    const how =
      end === undefined ? `${paths.map((path, i) => `${path} ${statuses[i]}`).join(', ')}` : `ended with ${end}`
    said.set(how, (said.get(how) ?? 0) + 1)
    if (end === 0 || statuses.some((status) => status > 0 && status < 500)) wrong++
    if (end === undefined) await gateway.end('SIGKILL')
  }
  await broker.proxy.accept()
  return {
    row: 'R12',
    what: `started while the broker is away, without a snapshot, ${STARTS} times`,
    figure: `${[...said].map(([how, count]) => `${how}: ${count}`).join('; ')} (0: not answered)`,
    n: STARTS,
    good: wrong === 0,
  }
}

const figures = [await fromSnapshot(), await withoutSnapshot()]
await gateway.remove()
await broker.remove()
conclude(figures)
