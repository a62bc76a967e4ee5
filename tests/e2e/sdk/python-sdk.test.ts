// The Python `openai` package, as it comes from PyPI, against a real gateway process.
import { afterEach, beforeAll, expect, test } from 'bun:test'
import { join } from 'node:path'
import { type GatewayProcess, INFERENCE_KEY, startGateway } from '../../services/gateway.ts'
import { openaiForPython, runToEnd } from '../../services/python.ts'
import { EACH_LISTENER } from '../../services/serve-app.ts'

let packages: string
let gateway: GatewayProcess | null = null

beforeAll(async () => {
  packages = await openaiForPython()
}, 180_000)
afterEach(() => gateway?.remove())

test.each(EACH_LISTENER)(
  'JSON, streaming, tools, errors and model listing (%p)',
  async (listener) => {
    gateway = startGateway({ settings: { server: { listener }, worker: { enabled: false } } })
    await gateway.until('serving')
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
  },
  60_000,
)
