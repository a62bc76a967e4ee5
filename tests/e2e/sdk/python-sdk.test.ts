// The Python `openai` package, as it comes from PyPI, against a real gateway process.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { join } from 'node:path'
import { type GatewayProcess, INFERENCE_KEY, startGateway } from '../../services/gateway.ts'
import { openaiForPython, runToEnd } from '../../services/python.ts'

let gateway: GatewayProcess
let packages: string

beforeAll(async () => {
  packages = await openaiForPython()
  gateway = startGateway({ settings: { worker: { enabled: false } } })
  await gateway.until('serving')
}, 180_000)
afterAll(() => gateway?.remove())

test('JSON, streaming, tools, errors and model listing', async () => {
  const out = await runToEnd(['python3', join(import.meta.dir, 'openai_sdk.py')], {
    PYTHONPATH: packages,
    GATELOG_BASE_URL: `${gateway.url}/v1`,
    GATELOG_KEY: INFERENCE_KEY,
  })
  const seen = JSON.parse(out) as Record<string, unknown>
  expect(seen).toMatchObject({
    text: expect.stringContaining('Hello from Python'),
    finish_reason: 'stop',
    provider: 'sandbox',
    streamed: expect.stringContaining('Streamed, please: déjà vu'),
    tool: 'weather',
    tool_arguments: expect.any(Object),
    errors: {
      model: [404, 'not_found', 'model'],
      top_k: [400, 'invalid_request', 'top_k'],
      key: [401, 'authentication_error', null],
    },
    models: expect.arrayContaining(['sandbox-echo']),
    model: 'sandbox-echo',
  })
  expect(seen.chunks).toBeGreaterThan(1)
  expect(seen.total_tokens).toBeGreaterThan(0)
  expect(seen.stream_tokens).toBeGreaterThan(0)
}, 60_000)
