// The instances that hold parts of budgets. One that announces itself is shown as live and is not given up, however
// long it has had nothing to report about budgets.
import { expect, test } from 'bun:test'
import { startGateway } from '../world/gateway.ts'

test('an instance that lives is shown as such and is not retired; once it is silent it is', async () => {
  const gateway = startGateway()
  gateway.liveInstances = ['ins_dead']
  const shown = await gateway.call('GET', '/instances')
  expect(shown.body.instances).toMatchObject([{ id: 'ins_dead', live: true, retired_at: null }])

  const refused = await gateway.call('POST', '/instances/ins_dead/retire', { body: {} })
  expect(refused.status).toBe(409)
  expect(refused.body.error).toMatchObject({ type: 'conflict_error', message: expect.stringContaining('is live') })
  expect((await gateway.call('GET', '/instances')).body.instances).toMatchObject([{ retired_at: null }])

  gateway.liveInstances = []
  // The one field of the body is optional, and so is the body.
  const retired = await gateway.call('POST', '/instances/ins_dead/retire')
  expect(retired.status).toBe(200)
  expect(retired.body).toMatchObject({ live: false, retired_at: expect.any(String) })
})

// docs/behaviour.md: "Admin reads"
test('each live one is shown with how far it is, this one first, also when it holds nothing of budgets', async () => {
  const gateway = startGateway()
  gateway.liveInstances = ['ins_a', 'ins_b']
  const announced = {
    ...{ instance: 'ins_a', offset: 12, tip: 't', digest: 'd', fold_version: 1, event_version: 1, build: '1.2.3' },
    ...{ degraded: null, stored: 12, started_at: '2026-11-20T00:00:00.000Z', clock_ahead_ms: -3 },
  }
  const older = { ...announced, instance: 'ins_b', offset: 9, degraded: 'stale' }
  gateway.standings = [
    { announced, lagRecords: 0, heardAtMs: 1_000 },
    { announced: { ...older, stored: undefined, started_at: undefined }, lagRecords: 3, heardAtMs: 2_000 },
  ]
  const { body } = await gateway.call('GET', '/instances')
  expect(body.instances).toMatchObject([
    {
      ...{ id: 'ins_a', live: true, self: true, build: '1.2.3', started_at: '2026-11-20T00:00:00.000Z' },
      ...{ announced_at: '1970-01-01T00:00:01.000Z', offset: 12, tip: 't', digest: 'd', lag_records: 0, stored: 12 },
      ...{ clock_ahead_ms: -3, degraded: null, holds_usd: 0 },
    },
    { id: 'ins_b', live: true, self: false, started_at: null, stored: null, lag_records: 3, degraded: 'stale' },
    { id: 'ins_dead', live: false, self: false, build: null, offset: null, announced_at: null, accounts: 2 },
  ])
})
