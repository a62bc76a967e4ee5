// Requests under a hard budget, on every way out: what they reserved is free again, and what they cost is spent.
import { afterEach, expect, test } from 'bun:test'
import { directCalls } from '../../src/inference/direct.ts'
import { createDialer } from '../../src/lib/dialer.ts'
import { KINDS } from '../../src/providers/kinds.ts'
import { budgetRow, budgetWorld, TENANT } from '../state/budget-world.ts'
import { catalogueOf, entry, TIP } from './gateway.ts'
import { testSpool } from './test-spool.ts'

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
  const ask = directCalls({
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
