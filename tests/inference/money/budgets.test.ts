// Requests under a hard budget, on every way out: what they reserved is free again, and what they cost is spent.
import { afterEach, expect, test } from 'bun:test'
import { gatewayCalls } from '../../../src/inference/gateway-calls.ts'
import { createDialer } from '../../../src/lib/http-client/dialer.ts'
import type { AppendFault } from '../../../src/log/memory.ts'
import { KINDS, kindOf } from '../../../src/providers/kinds.ts'
import type { OpenBudgets } from '../../../src/state/budgets/budgets.ts'
import { orphanOf } from '../../../src/upkeep/budgets/orphans.ts'
import { type FaultRequest, startFaultServer } from '../../faults/matrix/fault-server.ts'
import { DONE, delta, FINISH, open, ROLE, sse } from '../../faults/matrix/row.ts'
import { eventually } from '../../services/eventually.ts'
import { budgetRow, budgetWorld, TENANT } from '../../state/budgets/world.ts'
import { catalogueOf, entry, policyRow, TIP, testGateway } from '../gateway.ts'
import { testSpool } from '../test-spool.ts'

const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

test('a call that the gateway makes for itself and cannot record holds nothing afterwards', async () => {
  const world = budgetWorld(budgetRow({ limit_nano_usd: 1_000_000_000 }))
  const dialer = createDialer({ allowPrivate: true })
  closing.push(
    () => world.close(),
    () => dialer.close(),
  )
  const budgets = world.open('i')
  const spool = testSpool()
  const model = entry({ kind: 'openai_compatible', baseUrl: 'http://127.0.0.1:1/v1' })
  let made = 0
  const ask = gatewayCalls({
    live: { status: () => ({ tip: TIP }) as never },
    ...{ catalogue: catalogueOf([model]), spool, dial: dialer.dial, kinds: KINDS, nowMs: () => world.nowMs, budgets },
    newIdentity: () => ({
      ...{ id: `req_${++made}`, requestId: 'label', traceId: '0'.repeat(32) },
      ...{ atMs: world.nowMs, startedMs: performance.now() },
    }),
  })
  const question = {
    ...{ entry: model, body: { messages: [{ role: 'user', content: 'hi' }], max_tokens: 5 }, purpose: 'test' as const },
    ...{ payer: { tenantId: TENANT, keyId: 'key_1' }, timeoutMs: 5_000, signal: new AbortController().signal },
  }
  spool.before = () => {
    throw new Error('the disk is gone')
  }
  await expect(ask(question)).rejects.toMatchObject({ code: 'internal_error' })
  const [open] = budgets.leases.opens.values()
  expect(open!.lease.reserved).toEqual({ nano_usd: 0, tokens: 0 })
  expect([open!.users, open!.lease.spent.nano_usd]).toEqual([0, 0])
  spool.before = null
  expect((await ask(question)).error).not.toBeNull() // nobody listens there
  expect([open!.users, open!.lease.reserved.nano_usd]).toEqual([0, 0])
})

const STREAM = { model: 'small', max_tokens: 100, stream: true, messages: [{ role: 'user', content: 'hi' }] }

/** Reads a stream to its end: another piece comes from its provider with each that was read. */
const fed = async (response: Response, upstream: FaultRequest, piece: string): Promise<string> => {
  let text = ''
  for await (const read of response.body!.pipeThrough(new TextDecoderStream())) {
    text += read
    upstream.chunk(piece)
  }
  return text
}

/** A gateway before one provider, whose answers cost 10,000 nano-USD a token. */
const gatewayOn = (port: number, budgets: OpenBudgets) => {
  const kind = 'openai_compatible'
  const baseUrl = `http://127.0.0.1:${port}/v1`
  const gateway = testGateway({
    entries: [entry({ kind, baseUrl, inputCostPerMillion: 0, outputCostPerMillion: 10 })],
    kinds: [kindOf(kind)!],
    policies: [policyRow({ retry: { attempts: 0 } })],
    budgets,
  })
  closing.push(() => gateway.close())
  return gateway
}

test('before a stream goes on beyond its reservation, what it may cost now is recorded: a crash then charges no less', async () => {
  const world = budgetWorld(budgetRow({ limit_nano_usd: 1_000_000_000 }))
  world.nowMs = Date.now()
  const waiting = Promise.withResolvers<FaultRequest>()
  const server = startFaultServer((request) => {
    open(request, ROLE, delta({ content: 'word '.repeat(200) }))
    waiting.resolve(request)
  })
  closing.push(
    () => world.close(),
    () => server.stop(),
  )
  const gateway = gatewayOn(server.port, world.open('i'))
  const reader = (await gateway.chat(STREAM)).body!.pipeThrough(new TextDecoderStream()).getReader()
  // The client gets what is beyond the reservation only behind the record.
  for (let text = ''; !text.includes('word'); ) text += (await reader.read()).value!
  const [admitted] = gateway.spool.admitted()
  const [extended, ...more] = gateway.spool.extended()
  expect([gateway.spool.settled(), more]).toEqual([[], []])
  expect(extended).toMatchObject({ id: admitted!.id, n: 1 })
  expect(extended!.reserved_nano_usd).toBeGreaterThanOrEqual(2_500_000) // 250 tokens have come
  expect(extended!.reserved_nano_usd!).toBeGreaterThan(admitted!.reserved_nano_usd!)
  const records = gateway.spool.records.filter(({ type }) => type !== 'request.settled')
  const [first, ...later] = records.map(({ data }) => JSON.stringify(data))
  const orphan = orphanOf({ recordId: 'a.1', subject: 's', atMs: 1, data: first!, attempts: later }, 'ins_test.e2')!
  expect(orphan.cost_nano_usd).toBe(extended!.reserved_nano_usd)
  expect(orphan.budget![0]!.nano_usd).toBe(extended!.reserved_nano_usd!)
  const request = await waiting.promise
  request.chunk(FINISH + DONE)
  request.last()
  while (!(await reader.read()).done);
  expect(await gateway.spool.untilSettled()).toMatchObject([{ outcome: 'success' }])
})

test('a stream whose further reservation cannot be recorded is cut, and its client is told', async () => {
  const world = budgetWorld(budgetRow({ limit_nano_usd: 1_000_000_000 }))
  world.nowMs = Date.now()
  const server = startFaultServer((request) => open(request, ROLE, delta({ content: 'word '.repeat(200) })))
  closing.push(
    () => world.close(),
    () => server.stop(),
  )
  const budgets = world.open('i')
  const gateway = gatewayOn(server.port, budgets)
  gateway.spool.before = (type) => {
    if (type === 'request.extended') throw new Error('the disk is gone')
  }
  const text = await (await gateway.chat(STREAM)).text()
  expect([text.includes('event: error'), text.includes('internal_error'), text.includes('word')]).toEqual([
    true,
    true,
    false,
  ])
  await gateway.spool.untilSettled()
  const [each] = budgets.leases.opens.values()
  expect(each!.lease.reserved.nano_usd).toBe(0)
})

for (const [name, limits] of [
  ['money', { limit_nano_usd: 2_000_000, limit_tokens: null }],
  ['tokens', { limit_nano_usd: null, limit_tokens: 300 }],
] as const)
  test(`a stream that goes on beyond what is left of its ${name} is cut with an error frame, and is charged no more`, async () => {
    const world = budgetWorld(budgetRow(limits))
    world.nowMs = Date.now()
    // 250 tokens each by our estimate, whatever the client allows, for as long as somebody listens.
    const piece = delta({ content: 'word '.repeat(200) })
    const called = Promise.withResolvers<FaultRequest>()
    const server = startFaultServer((request) => {
      open(request, ROLE, piece)
      called.resolve(request)
    })
    const budgets = world.open('i')
    const gateway = gatewayOn(server.port, budgets)
    closing.push(
      () => world.close(),
      () => server.stop(),
    )
    const text = await fed(await gateway.chat(STREAM), await called.promise, piece)
    expect([text.includes('event: error'), text.includes('quota_exceeded')]).toEqual([true, true])
    const [settled] = await gateway.spool.untilSettled()
    expect(settled).toMatchObject({ outcome: 'interrupted', error_code: 'quota_exceeded' })
    const [each] = budgets.leases.opens.values()
    const { spent, reserved } = each!.lease
    expect([spent.nano_usd <= 2_000_000, spent.tokens <= 300, reserved]).toEqual([
      true,
      true,
      { nano_usd: 0, tokens: 0 },
    ])
    expect(spent.nano_usd + spent.tokens).toBeGreaterThan(100)
  })

/** A chunk of one choice of several. */
const ofChoice = (index: number, content: string, finish: string | null = null) =>
  sse({
    ...{ id: 'c1', object: 'chat.completion.chunk', created: 1_760_000_000, model: 'm' },
    choices: [{ index, delta: { content }, finish_reason: finish }],
  })

test.each([0, 1])(
  'of two choices the one that goes on beyond what is left is cut when choice %i has ended, whose last words go out',
  async (ended) => {
    const world = budgetWorld(budgetRow({ limit_nano_usd: 2_000_000 }))
    world.nowMs = Date.now()
    const piece = ofChoice(1 - ended, 'word '.repeat(200))
    const called = Promise.withResolvers<FaultRequest>()
    const server = startFaultServer((request) => {
      open(request, ofChoice(0, 'a'), ofChoice(1, 'b'), ofChoice(ended, 'the last words', 'stop'))
      called.resolve(request)
    })
    const budgets = world.open('i')
    const gateway = gatewayOn(server.port, budgets)
    closing.push(
      () => world.close(),
      () => server.stop(),
    )
    const text = await fed(await gateway.chat({ ...STREAM, n: 2 }), await called.promise, piece)
    expect([text.includes('quota_exceeded'), text.includes('the last words')]).toEqual([true, true])
    const [settled] = await gateway.spool.untilSettled()
    expect(settled).toMatchObject({ outcome: 'interrupted', error_code: 'quota_exceeded' })
    expect([...budgets.leases.opens.values()][0]!.lease.spent.nano_usd).toBeLessThanOrEqual(2_000_000)
  },
)

test('a client that leaves while its stream waits for a further reservation: nothing is held, and nothing is recorded behind the outcome', async () => {
  const world = budgetWorld(budgetRow({ limit_nano_usd: 1_000_000_000 }))
  world.nowMs = Date.now()
  const [asked, answered, upstream] = [
    Promise.withResolvers<void>(),
    Promise.withResolvers<void>(),
    Promise.withResolvers<FaultRequest>(),
  ]
  const server = startFaultServer((request) => {
    open(request, ROLE, delta({ content: 'word ' }))
    upstream.resolve(request)
  })
  closing.push(
    () => world.close(),
    () => server.stop(),
  )
  let holds = false
  const view = world.log.view({
    beforeAppend: async (): Promise<AppendFault> => {
      if (!holds) return 'none'
      asked.resolve()
      await answered.promise
      return 'none'
    },
  })
  const budgets = world.open('i', view)
  const gateway = gatewayOn(server.port, budgets)
  const left = new AbortController()
  const reader = (await gateway.chat(STREAM, {}, left.signal)).body!.getReader()
  await reader.read()
  const [each] = budgets.leases.opens.values()
  holds = true
  ;(await upstream.promise).chunk(delta({ content: 'word '.repeat(20_000) }))
  reader.read().catch(() => undefined)
  await asked.promise
  left.abort()
  reader.cancel().catch(() => undefined)
  expect(await gateway.spool.untilSettled()).toMatchObject([{ outcome: 'canceled' }])
  answered.resolve()
  await eventually('nobody waits', () => (budgets.leases.waiting === 0 ? true : null))
  expect([each!.lease.reserved, each!.users]).toEqual([{ nano_usd: 0, tokens: 0 }, 0])
  expect(gateway.spool.records.at(-1)!.type).toBe('request.settled')
})
