// What a client is shown agrees with what is recorded.
import { afterAll, afterEach, expect, test } from 'bun:test'
import { KINDS } from '../../../src/providers/kinds.ts'
import { entry, framesOf, type TestGateway, testGateway } from '../gateway.ts'

let answer = ''
const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response(answer) })
let gateway: TestGateway
afterEach(() => gateway.close())
afterAll(() => server.stop(true))

const open = (kind: string, said: string) => {
  answer = said
  const baseUrl = `http://127.0.0.1:${server.port}/v1`
  gateway = testGateway({ kinds: [...KINDS.values()], entries: [entry({ kind, baseUrl, secret: 'sk-test' })] })
}
interface Frame {
  readonly choices?: { delta: { content?: string } }[]
  readonly usage?: { prompt_tokens: number; completion_tokens: number; total_tokens: number }
  readonly gateway?: { shaping?: string[] }
  readonly error?: { code: string }
}
const ask = { model: 'small', messages: [{ role: 'user', content: 'hi' }] }
const asked = { ...ask, stream: true, stream_options: { include_usage: true } }
const settled = () => gateway.spool.settled()[0]!
const recorded = () => [settled().prompt_tokens, settled().completion_tokens] as number[]
const shownIn = (usage: Frame['usage']) => [usage?.prompt_tokens, usage?.completion_tokens]
const frame = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`
const chunk = (delta: unknown, finish: string | null = null, more = {}) =>
  frame({
    id: 'c',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'm',
    choices: [{ index: 0, delta, finish_reason: finish }],
    ...more,
  })

test('tokens that the provider does not tell are our estimate, shown and recorded', async () => {
  const line = {
    model: 'q',
    message: { role: 'assistant', content: 'hi' },
    done: true,
    done_reason: 'stop',
    eval_count: 2,
  }
  open('ollama', `${JSON.stringify(line)}\n`)
  const { usage } = (await (await gateway.chat(ask)).json()) as Frame
  expect(shownIn(usage)).toEqual(recorded())
  expect(usage!.prompt_tokens).toBeGreaterThan(0)
  expect(usage!.total_tokens).toBe(usage!.prompt_tokens + 2)
  gateway.close()
  open('ollama', `${JSON.stringify(line)}\n`)
  const last = (await framesOf(await gateway.chat(asked))).at(-2) as Frame
  expect(shownIn(last.usage)).toEqual(recorded())
})

test('numbers that are none are replaced by what is recorded', async () => {
  const choices = [{ index: 0, message: { role: 'assistant', content: 'a' }, finish_reason: 'stop' }]
  const usage = { prompt_tokens: -5, completion_tokens: 'x', total_tokens: 1.5 }
  open('openai', JSON.stringify({ id: 'c', object: 'chat.completion', created: 1, model: 'm', choices, usage }))
  const shown = ((await (await gateway.chat(ask)).json()) as Frame).usage
  expect(shownIn(shown)).toEqual(recorded())
})

test('usage on chunks is for who asked; it is recorded all the same', async () => {
  const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 }
  open(
    'openai',
    `${chunk({ role: 'assistant', content: 'a' }, null, { usage: null })}${chunk({}, 'stop', { usage })}data: [DONE]\n\n`,
  )
  const text = await (await gateway.chat({ ...ask, stream: true })).text()
  expect(text).toContain('"content":"a"')
  expect(text).not.toContain('usage')
  expect(recorded()).toEqual([3, 2])
})

test('litter in a stream is passed over, and the outcome says so', async () => {
  open(
    'openai',
    `${chunk({ role: 'assistant', content: 'a' })}data: ping\n\n: ok\n\ndata: pong\n\n${chunk({}, 'stop')}data: [DONE]\n\n`,
  )
  const frames = await framesOf(await gateway.chat(asked, { 'X-Gateway-Debug': 'true' }))
  const note = 'skipped 2 unreadable frames'
  expect((frames.at(-2) as Frame).gateway!.shaping).toContain(note)
  expect(settled()).toMatchObject({ outcome: 'success', shaping: [note] })
})

test('a damaged frame ends a stream: what follows would read as a whole answer', async () => {
  open(
    'openai',
    `${chunk({ role: 'assistant', content: 'a' })}data: {"choices":[{"del\n\n${chunk({ content: 'c' }, 'stop')}data: [DONE]\n\n`,
  )
  // All of it came before the first byte to the client, so it is a plain failure.
  const response = await gateway.chat({ ...ask, stream: true })
  expect([response.status, ((await response.json()) as Frame).error?.code]).toEqual([502, 'upstream_error'])
  expect(settled()).toMatchObject({ outcome: 'error', error_code: 'upstream_error' })
})
