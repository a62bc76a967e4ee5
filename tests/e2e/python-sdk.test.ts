// The Python `openai` package, as it comes from PyPI, against a real gateway process.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { type GatewayProcess, INFERENCE_KEY, startGateway } from '../services/gateway.ts'

const VERSION = '3.51.0'
const packages = join(import.meta.dir, `../../node_modules/.cache/python-openai-${VERSION}`)
let gateway: GatewayProcess

const run = async (command: string[], env: Record<string, string> = {}) => {
  const child = Bun.spawn(command, { stdout: 'pipe', stderr: 'pipe', env: { ...process.env, ...env } })
  const [out, errors, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  if (code !== 0) throw new Error(`${command.join(' ')} ended with ${code}:\n${out}${errors}`)
  return out
}

beforeAll(async () => {
  if (!existsSync(join(packages, 'openai'))) {
    await run([
      'python3',
      '-m',
      'pip',
      'install',
      '--quiet',
      '--disable-pip-version-check',
      '--target',
      packages,
      `openai==${VERSION}`,
    ])
  }
  gateway = startGateway({ settings: { worker: { enabled: false } } })
  await gateway.until('serving')
}, 180_000)
afterAll(() => gateway?.remove())

test('JSON, streaming, tools, errors and model listing', async () => {
  const out = await run(['python3', join(import.meta.dir, 'openai_sdk.py')], {
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
