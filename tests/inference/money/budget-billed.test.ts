// The charge to a hard budget for an attempt without reported usage: at least what may have been billed. Reports and
// budgets that only count use the estimate.
import { afterEach, describe, expect, test } from 'bun:test'
import type { BudgetRow } from '../../../src/domain/budgets/budget.ts'
import { estimateTokens } from '../../../src/inference/money/estimate.ts'
import { kindOf } from '../../../src/providers/kinds.ts'
import type { CatalogueEntry } from '../../../src/state/port.ts'
import { type FaultAnswer, startFaultServer } from '../../faults/matrix/fault-server.ts'
import { DONE, delta, FINISH, open, ROLE, sse } from '../../faults/matrix/row.ts'
import { budgetRow, budgetWorld } from '../../state/budgets/world.ts'
import { entry, policyRow, testGateway } from '../gateway.ts'

const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

const KIND = 'openai_compatible'
const [INPUT_NANO, OUTPUT_NANO] = [1_000, 10_000]
const ASK = { model: 'small', max_tokens: 100, messages: [{ role: 'user', content: 'hi' }] }
const HARD = budgetRow({ limit_nano_usd: 1_000_000_000, limit_tokens: 1_000_000 })
const SOFT = budgetRow({ ...HARD, id: 'bud_2', window: 'hour', enforcement: 'soft' })

/** A row of the catalogue, as far as it differs. */
type Row = Partial<CatalogueEntry>

const setUp = (answer: FaultAnswer, { rows = [HARD, SOFT], row = {} as Row } = {}) => {
  const world = budgetWorld(...rows)
  world.nowMs = Date.now()
  const server = startFaultServer(answer)
  const budgets = world.open('i')
  const gateway = testGateway({
    entries: [
      entry({
        ...{ kind: KIND, upstreamModel: 'm', baseUrl: `http://127.0.0.1:${server.port}/v1` },
        ...{ inputCostPerMillion: INPUT_NANO / 1_000, outputCostPerMillion: OUTPUT_NANO / 1_000 },
        ...row,
      }),
    ],
    kinds: [kindOf(row.kind ?? KIND)!],
    policies: [policyRow({ retry: { attempts: 0 } })],
    budgets,
  })
  closing.push(
    () => gateway.close(),
    () => world.close(),
    () => server.stop(),
  )
  return { gateway, budgets, server }
}

/** Sends a request, and disconnects when the upstream has it, or once the first bytes of a stream have arrived. */
const leaving = async (answer: FaultAnswer, stream: boolean, row: Row = {}) => {
  const arrived = Promise.withResolvers<void>()
  const setup = setUp(
    async (request) => {
      await answer(request)
      arrived.resolve()
    },
    { row },
  )
  const left = new AbortController()
  const response = setup.gateway.chat({ ...ASK, stream }, {}, left.signal)
  response.catch(() => undefined)
  await arrived.promise
  if (stream) {
    const reader = (await response).body!.getReader()
    await reader.read()
    left.abort()
    await reader.cancel().catch(() => undefined)
  } else left.abort()
  await setup.gateway.spool.untilSettled()
  return setup
}

const asking = async (answer: FaultAnswer, stream: boolean, row: Row = {}) => {
  const setup = setUp(answer, { row })
  await (await setup.gateway.chat({ ...ASK, stream })).text()
  await setup.gateway.spool.untilSettled()
  return setup
}

const WORDS = 'wörd '.repeat(4)
const nothing: FaultAnswer = () => undefined
const begins: FaultAnswer = (request) => open(request, ROLE, delta({ content: WORDS }))
const breaks: FaultAnswer = (request) => {
  begins(request)
  request.last()
}
const empty: FaultAnswer = (request) => {
  open(request, ROLE)
  request.last()
}
const ends =
  (usage = ''): FaultAnswer =>
  (request) => {
    open(request, ROLE, delta({ content: WORDS }), FINISH, usage + DONE)
    request.last()
  }
const json =
  (body: string, status?: string): FaultAnswer =>
  (request) => {
    request.head200('content-type: application/json\r\n', status)
    request.chunk(body)
    request.last()
  }
const message = { role: 'assistant', content: WORDS }
const whole = JSON.stringify({ choices: [{ index: 0, message, finish_reason: 'stop' }] })
const USAGE = sse({ choices: [], usage: { prompt_tokens: 3, completion_tokens: 9, total_tokens: 12 } })

/** Vendors that stop when their client leaves, and those that are not known to. */
const STOPS = [
  'openai',
  'azure_openai',
  'deepseek',
  'together',
  'fireworks',
  'xai',
  'vllm',
  'llamacpp',
  'tgi',
  'lmstudio',
]
const GO_ON = ['openai_compatible', 'openrouter', 'groq', 'mistral', 'perplexity', 'cerebras']
const OPERATOR_SAYS = { options: { stops_billing_when_left: true } }
const AZURE = { kind: 'azure_openai', upstreamModel: 'gpt-4o' }

/** All that was reserved; what was seen, every byte of it a token; what the provider counted; nothing. */
type Charged = 'all' | 'seen' | 'counted' | 'nothing'

type Way = readonly [string, Charged, () => ReturnType<typeof asking>]
const WAYS: readonly Way[] = [
  ['a client that leaves before an answer', 'all', () => leaving(nothing, false)],
  ['an answer that cannot be read', 'all', () => asking(json('<html>'), false)],
  ['a connection that breaks before an answer', 'all', () => asking(({ connection }) => connection.reset(), false)],
  ['a stream that ends before its content', 'all', () => asking(empty, true)],
  ...GO_ON.map(
    (kind) => [`a client that leaves a stream of ${kind}`, 'all', () => leaving(begins, true, { kind })] as const,
  ),
  ...STOPS.map(
    (kind) =>
      [`a client that leaves a stream of ${kind}`, 'seen', () => leaving(begins, true, { ...AZURE, kind })] as const,
  ),
  [
    'a client that leaves a stream of a server that is said to stop',
    'seen',
    () => leaving(begins, true, OPERATOR_SAYS),
  ],
  ['a stream that breaks', 'all', () => asking(breaks, true)],
  ['a stream that breaks, of a provider that stops', 'seen', () => asking(breaks, true, OPERATOR_SAYS)],
  ['a whole stream without usage', 'seen', () => asking(ends(), true)],
  ['a whole answer without usage', 'seen', () => asking(json(whole), false)],
  [
    'a client that leaves the stream of a model that reasons',
    'all',
    () => leaving(begins, true, { ...OPERATOR_SAYS, upstreamModel: 'o3-mini' }),
  ],
  [
    'a whole stream of a model that reasons, without usage',
    'all',
    () => asking(ends(), true, { upstreamModel: 'google/gemini-2.5-pro' }),
  ],
  [
    'a whole stream of a model that reasons, with usage',
    'counted',
    () => asking(ends(USAGE), true, { upstreamModel: 'o3-mini' }),
  ],
  [
    'a client that leaves a deployment that may be any model',
    'all',
    () => leaving(begins, true, { ...AZURE, upstreamModel: 'ours' }),
  ],
  ['a whole stream with usage', 'counted', () => asking(ends(USAGE), true)],
  ['a refusal', 'nothing', () => asking(json('{}', '500 No'), false)],
]

describe('charged to a hard budget', () => {
  test.each(WAYS)('%s: %s', async (_, charged, make) => {
    const { gateway, budgets } = await make()
    const [admitted] = gateway.spool.admitted()
    const [settled] = gateway.spool.settled()
    const promptBytes = admitted!.plan.prompt_bytes
    const seen = [promptBytes, Buffer.byteLength(WORDS)] as const
    const nano = (prompt: number, completion: number) => prompt * INPUT_NANO + completion * OUTPUT_NANO
    const expected = {
      all: { nano_usd: admitted!.reserved_nano_usd!, tokens: promptBytes + 100 },
      seen: { nano_usd: nano(...seen), tokens: seen[0] + seen[1] },
      counted: { nano_usd: nano(3, 9), tokens: 12 },
      nothing: { nano_usd: 0, tokens: 0 },
    }[charged]
    expect(budgets.standing(HARD)!.spent).toEqual(expected)
    const tokens = (settled!.prompt_tokens ?? 0) + (settled!.completion_tokens ?? 0)
    expect(budgets.standing(SOFT)!.spent).toEqual({ nano_usd: settled!.cost_nano_usd!, tokens })
    if (charged === 'seen') expect(settled!.completion_tokens).toBe(estimateTokens(Buffer.byteLength(WORDS)))
    for (const { lease, users } of budgets.leases.opens.values())
      expect([lease.reserved, users]).toEqual([{ nano_usd: 0, tokens: 0 }, 0])
  })
})

test('clients that leave, one after the other, never cost an upstream more than the limit', async () => {
  let billed = 0
  let arrived = Promise.withResolvers<void>()
  const limit_nano_usd = 5_500_000
  const row = budgetRow({ limit_nano_usd })
  const answer: FaultAnswer = ({ body }) => {
    billed += Buffer.byteLength(body) * INPUT_NANO + ASK.max_tokens * OUTPUT_NANO
    arrived.resolve()
  }
  const { gateway, budgets, server } = setUp(answer, { rows: [row] })
  const statuses: number[] = []
  for (let n = 1; n <= 10; n++) {
    arrived = Promise.withResolvers()
    const left = new AbortController()
    const response = gateway.chat(ASK, {}, left.signal).then(
      ({ status }) => statuses.push(status),
      () => statuses.push(499),
    )
    await Promise.race([arrived.promise, response])
    left.abort()
    await response
    await gateway.spool.untilSettled(n)
  }
  expect(statuses.slice(-5)).toEqual([402, 402, 402, 402, 402])
  expect(server.requests).toHaveLength(5)
  expect(billed).toBeLessThanOrEqual(limit_nano_usd)
  expect(budgets.standing(row)!.spent.nano_usd).toBeGreaterThanOrEqual(billed)
})

test('clients that leave streams at their first words never cost more than the limit where the provider bills the whole answer', async () => {
  const limit_nano_usd = 5_500_000
  const row = budgetRow({ limit_nano_usd })
  let billed = 0
  const { gateway, budgets } = setUp(
    (request) => {
      billed += Buffer.byteLength(JSON.stringify(ASK)) * INPUT_NANO + ASK.max_tokens * OUTPUT_NANO
      begins(request)
    },
    { rows: [row] },
  )
  const statuses: number[] = []
  for (let n = 1; n <= 10; n++) {
    const left = new AbortController()
    const response = await gateway.chat({ ...ASK, stream: true }, {}, left.signal)
    statuses.push(response.status)
    const reader = response.body!.getReader()
    await reader.read()
    left.abort()
    await reader.cancel().catch(() => undefined)
    await gateway.spool.untilSettled(n)
  }
  expect(statuses).toContain(402)
  expect(billed).toBeLessThanOrEqual(limit_nano_usd)
  expect(budgets.standing(row)!.spent.nano_usd).toBeGreaterThanOrEqual(billed)
  // What is reported stays what was seen, as an estimate that says that it is one.
  const [first] = gateway.spool.settled()
  expect(first).toMatchObject({ outcome: 'canceled', cost_basis: 'estimated' })
  expect(first!.completion_tokens).toBe(estimateTokens(Buffer.byteLength(WORDS)))
})

describe('usage on streams', () => {
  const asks = async (row: Row, rows: readonly BudgetRow[], more: Record<string, unknown> = {}) => {
    const { gateway, server } = setUp(ends(USAGE), { rows: [...rows], row })
    const text = await (await gateway.chat({ ...ASK, ...more, stream: true })).text()
    return { asked: /"include_usage":\s*true/.test(server.requests[0]!), text }
  }

  test('is asked for where a hard budget has to know it, and hidden from a client that did not ask', async () => {
    for (const kind of [...STOPS, 'groq', 'cerebras', 'openai_compatible']) {
      const row = { kind }
      const { asked, text } = await asks(row, [HARD])
      expect([row, asked]).toEqual([row, true])
      expect(text).not.toContain('prompt_tokens')
      expect(text).toContain('[DONE]')
    }
    expect((await asks({}, [HARD], { stream_options: { include_usage: true } })).text).toContain('"prompt_tokens":3')
  })

  test('is not asked for without one, of those that say it unasked, and of those that are known to refuse it', async () => {
    const old = { kind: 'azure_openai', options: { api_version: '2024-06-01' } }
    const rows: readonly (readonly [Row, BudgetRow, object?])[] = [
      [{ kind: 'openai' }, SOFT],
      ...['mistral', 'openrouter', 'perplexity'].map((kind) => [{ kind }, HARD] as const),
      [old, HARD],
      [{ kind: 'azure_openai' }, HARD, { data_sources: [] }],
      [{ kind: 'vllm', options: { drop: ['stream_options'] } }, HARD],
    ]
    for (const [row, budget, more = {}] of rows) {
      const { asked } = await asks(row, [budget], { ...more })
      expect([row, asked]).toEqual([row, false])
    }
    expect((await asks({ kind: 'azure_openai', options: { api_version: '2024-10-21' } }, [HARD])).asked).toBe(true)
  })

  /** Two streams, one after the other; what the upstream was sent, and what came of them. */
  const twice = async (answer: FaultAnswer, row: Row, more: Record<string, unknown> = {}) => {
    const { gateway, budgets, server } = setUp(answer, { row })
    const statuses: number[] = []
    for (let n = 1; n <= 2; n++) {
      const response = await gateway.chat({ ...ASK, ...more, stream: true })
      await response.text()
      statuses.push(response.status)
      await gateway.spool.untilSettled(n)
    }
    const asked = server.requests.map((sent) => sent.includes('include_usage'))
    const { attempts } = gateway.spool.settled()[0]!
    return { statuses, asked, attempts, spent: budgets.standing(HARD)!.spent }
  }
  const refusing =
    (message: string, status: string): FaultAnswer =>
    (request) =>
      request.body.includes('stream_options')
        ? json(JSON.stringify({ error: { message } }), status)(request)
        : ends()(request)
  const NAMES = "Extra inputs are not permitted, field: 'stream_options'"

  test.each([
    ['fireworks', NAMES, '400 No'],
    ['vllm', NAMES, '400 No'],
    ['openai_compatible', NAMES, '422 No'],
    ['openai_compatible', 'bad request', '400 No'],
  ])('of a server of %s that refuses the question (%s, %s) is not asked again', async (kind, message, status) => {
    const { statuses, asked, attempts, spent } = await twice(refusing(message, status), { kind })
    expect([statuses, asked, attempts.length]).toEqual([[200, 200], [true, false, false], 1])
    const promptBytes = (spent.nano_usd - 2 * Buffer.byteLength(WORDS) * OUTPUT_NANO) / INPUT_NANO
    expect(spent.tokens).toBe(promptBytes + 2 * Buffer.byteLength(WORDS)) // the refusal cost nothing
  })

  test('is answered as it is where the client asks, and where the question cannot be why', async () => {
    const own = await twice(refusing(NAMES, '400 No'), {}, { stream_options: { include_usage: true } })
    expect([own.statuses, own.asked]).toEqual([
      [400, 400],
      [true, true],
    ])
    let calls = 0
    const later: FaultAnswer = (request) => (++calls === 1 ? ends(USAGE) : json('{}', '400 No'))(request)
    const known = await twice(later, {})
    expect([known.statuses, known.asked]).toEqual([
      [200, 400],
      [true, true],
    ])
  })
})
