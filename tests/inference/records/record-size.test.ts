// How many bytes the records of a request take where a gateway has everything on: a policy, a hard budget, twenty
// candidates. A settlement stays below 1 KiB, both below 1.6 KiB (docs/decisions/0070-the-small-record.md).
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { SegmentReader } from '../../../src/log/segments/segments.ts'
import { spoolDirectory } from '../../../src/log/spool/spool.ts'
import { startGateway } from '../../services/gateway.ts'
import { startUpstream } from '../../services/upstream.ts'

const CANDIDATES = 20
const REQUESTS = 100
const MOST_SETTLED_BYTES = 1_024
const MOST_BYTES = 1_638

const prices = { input_cost_per_million: 0.15, output_cost_per_million: 0.6, context_window: 128_000 }
const names = Array.from({ length: CANDIDATES }, (_, i) => `openai-eu-${i + 1}`)

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!

/** Bytes of the data of each record, by type. */
const recordBytes = (dataDir: string): ReadonlyMap<string, number[]> => {
  const bytes = new Map<string, number[]>()
  const reader = new SegmentReader({ directory: spoolDirectory(dataDir, 0) })
  reader.seek({ record: 0 })
  for (let records = reader.next(1_000); records.length > 0; records = reader.next(1_000))
    for (const { topic, type, data } of records)
      if (topic === 'requests') bytes.set(type, [...(bytes.get(type) ?? []), Buffer.byteLength(data)])
  reader.close()
  return bytes
}

// docs/behaviour.md: "Outcomes"
test('the records of a request with a policy, a hard budget and twenty candidates stay small', async () => {
  const upstream = startUpstream()
  const providers = names.map((name) => ({ name, kind: 'openai_compatible', base_url: upstream.baseUrl }))
  const models = names.map((provider) => ({ name: 'gpt-4o-mini', provider, ...prices }))
  const settings = { worker: { enabled: false }, egress: { allow_private: true }, bootstrap: { providers, models } }
  const gateway = startGateway({ settings })
  try {
    await gateway.until('serving')
    const policy = { name: 'default', strategy: 'balanced', max_cost_usd: 1 }
    for (const [method, path, body] of [
      ['POST', '/policies', policy],
      ['PUT', '/budgets', { limit_usd: 1_000, window: 'month', enforcement: 'hard' }],
    ] as const) {
      const answer = await gateway.request(`/admin/v1${path}`, { method, body })
      expect([answer.status < 300, await answer.json()]).toMatchObject([true, {}])
    }
    upstream.behave({ usage: { prompt: 1_210, completion: 345 } })
    const messages = [{ role: 'user', content: 'word '.repeat(900) }]
    for (let i = 0; i < REQUESTS; i++) {
      const body = { model: 'gpt-4o-mini', messages, max_tokens: 500, stream: i % 2 === 1 }
      const answer = await gateway.request('/v1/chat/completions', { body })
      await answer.text()
      expect(answer.status).toBe(200)
    }
    await gateway.end()
    const bytes = recordBytes(join(gateway.folder, 'data'))
    const [admitted, settled] = [bytes.get('request.admitted')!, bytes.get('request.settled')!]
    expect([admitted.length, settled.length]).toEqual([REQUESTS, REQUESTS])
    const medians = { settled: median(settled), admitted: median(admitted) }
    const both = medians.settled + medians.admitted
    console.log(`bytes of a request's records, median: ${JSON.stringify({ ...medians, both })}`)
    expect(medians.settled).toBeLessThanOrEqual(MOST_SETTLED_BYTES)
    expect(both).toBeLessThanOrEqual(MOST_BYTES)
  } finally {
    await gateway.remove()
    await upstream.stop()
  }
}, 120_000)
