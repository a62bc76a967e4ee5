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
