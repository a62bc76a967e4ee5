// Text that would be a statement, a frame, a label or a member somewhere behind us is text everywhere.
import { afterAll, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createParser, type EventSourceMessage } from 'eventsource-parser'
import { adminTable } from '../../src/http/admin/runner.ts'
import { readWorld } from '../http/admin/world/read-world.ts'
import { entry, testGateway } from '../inference/gateway.ts'
import { startUpstream } from '../services/upstream.ts'

const ROOT = join(import.meta.dir, '../..')
const reads = readWorld()
const upstream = startUpstream()
const gateway = testGateway({ entries: [entry({ baseUrl: upstream.baseUrl })] })
afterAll(async () => {
  gateway.close()
  await upstream.stop()
})

const STATEMENTS = [
  "' or '1'='1",
  "'; drop table gatelog.position; --",
  "') union select null, digest from gatelog.keys --",
  '" or ""="',
  '%',
  '_',
  '\\',
  "x' || pg_sleep(10) || '",
  '$1',
  'null',
  '{"$gt":""}',
  "ten_default' --",
]

test('S13: no filter of a read is part of a statement: it finds nothing of another tenant, and harms nothing', async () => {
  const routes = adminTable(reads.gateway.deps).filter(({ method, path }) => method === 'GET' && !path.includes(':id'))
  const ofReadModels = routes.filter(
    ({ path }) => /^\/(requests|errors|audit|usage)/.test(path) && path !== '/requests/stream',
  )
  expect(ofReadModels.length).toBeGreaterThan(3)
  let asked = 0
  for (const { path, querySchema } of ofReadModels) {
    const names = Object.keys((querySchema?.properties ?? {}) as object)
    for (const name of names)
      for (const text of STATEMENTS) {
        const query = `?${name}=${encodeURIComponent(text)}&from=48h`
        const { status, body } = await reads.gateway.call('GET', `${path}${query}`, { key: reads.ownKey })
        asked++
        expect([path, name, text, status]).toEqual([path, name, text, status < 500 ? status : 'not a failure'])
        const shown = JSON.stringify(body)
        for (const theirs of ['req_3', 'req_4', 'key_b', 'Backup'])
          expect([name, text, shown.includes(theirs)]).toEqual([name, text, false])
      }
  }
  for (const text of STATEMENTS) {
    const { status } = await reads.gateway.call('GET', `/requests/${encodeURIComponent(text)}`, { key: reads.ownKey })
    expect([text, status]).toEqual([text, 404])
  }
  expect(asked).toBeGreaterThan(200)
  const [{ left }] = (await reads.sql`select count(*)::int as left from gatelog.position`) as unknown as [
    { left: number },
  ]
  expect(left).toBeGreaterThan(1)
})

test('S13: statements are put together only where nothing of a caller is: projectors and builds, never a read', () => {
  const composed = [...new Bun.Glob('{src,projections}/**/*.ts').scanSync({ cwd: ROOT })]
    .filter((path) => /\.unsafe\(/.test(readFileSync(join(ROOT, path), 'utf8')))
    .filter((path) => !/^projections\/(\w+\/(project|close|days)|builds|copy)\.ts$/.test(path))
  expect(composed).toEqual(['src/commands/verify/outcomes.ts']) // one fixed text
})

test('S13: labels of metrics come from closed sets and the registry, never from a client', async () => {
  const evil = 'x"} 1\nevil_metric{a="'
  const headers = { 'x-request-id': 'evil_metric', 'user-agent': 'evil_metric' }
  await gateway.chat({ model: evil, user: evil, messages: [{ role: 'user', content: evil }] })
  await gateway.chat({ model: 'small', user: evil, messages: [{ role: 'user', content: evil }] }, headers)
  await gateway.send('/v1/evil_metric')
  await gateway.send('/v1/models', { key: 'gw_live_evil_metric_evil_metric_evil_metric' })
  const metrics = await (await gateway.send('/metrics')).text()
  expect(metrics).toContain('model="small"')
  expect(metrics).not.toContain('evil')
})

const FRAMES = [
  'a\n\ndata: {"evil":1}\n\n',
  '\r\n\r\nevent: error\r\ndata: evil\r\n\r\n',
  'data: [DONE]\n\n',
  '\u2028\u2029\u0085evil',
  '"}}]}\n\ndata: evil',
]

interface Chunk {
  readonly choices: readonly { readonly delta?: { readonly content?: string } }[]
}

/** As a client reads them, by a parser that is not ours. */
const eventsOf = (text: string): EventSourceMessage[] => {
  const events: EventSourceMessage[] = []
  createParser({ onEvent: (event) => events.push(event) }).feed(text)
  return events
}

test('S20: what an upstream says stays inside its frame: the frames are those that were meant', async () => {
  for (const text of FRAMES) {
    upstream.next({ text, chunks: 1 })
    const ask = { model: 'small', stream: true, messages: [{ role: 'user', content: 'hi' }] }
    const events = eventsOf(await (await gateway.chat(ask)).text())
    expect(events.at(-1)).toEqual({ event: undefined, data: '[DONE]' })
    const chunks = events.slice(0, -1).map(({ data }) => JSON.parse(data) as Chunk)
    expect(chunks.map(({ choices }) => choices[0]?.delta?.content ?? '').join('')).toBe(text)
    expect(events.filter(({ event, data }) => event !== undefined || data.includes('[DONE]')).length).toBe(
      text.includes('[DONE]') ? 2 : 1, // its own text, inside its frame, and the end
    )
  }
})

test('S24: of two models in one body the one that is authorised is the one that is sent', async () => {
  const messages = '"messages":[{"role":"user","content":"hi"}]'
  for (const raw of [
    `{"model":"nobody-has-this","model":"small",${messages}}`,
    `{"mod\\u0065l":"nobody-has-this",${messages},"model":"small"}`,
    `{"model":"small",${messages},"__proto__":{"model":"nobody-has-this"}}`,
  ]) {
    upstream.received.length = 0
    const { status } = await gateway.send('/v1/chat/completions', { raw })
    const sent = upstream.received.map(({ text }) => text)
    expect([raw, status]).toEqual([raw, 200])
    for (const text of sent) {
      expect((JSON.parse(text) as { model: string }).model).toBe('small')
      expect(text.match(/"mod(e|\\u0065)l":/g)!.length - (text.match(/__proto__/g)?.length ?? 0)).toBe(1)
    }
  }
  const other = await gateway.send('/v1/chat/completions', {
    raw: `{"model":"small","model":"nobody-has-this",${messages}}`,
  })
  expect(other.status).toBe(404)
})
