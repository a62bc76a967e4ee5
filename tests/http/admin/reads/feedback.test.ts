// `GET /admin/v1/feedback`: rows match the document and carry the current names. tests/projections/feedback.test.ts
// covers what is stored and found.
import { expect, test } from 'bun:test'
import type { StoredFeedback } from '../../../../projections/feedback/query.ts'
import { FeedbackRow, feedbackRoutes } from '../../../../src/http/admin/reads/feedback.ts'
import { modelCreated, providerCreated } from '../../../domain/world.ts'
import { startGateway } from '../world/gateway.ts'
import { flawsOf, NOW_MS } from '../world/read-world.ts'

const stored = (more: Partial<StoredFeedback>): StoredFeedback => ({
  id: 'fb_1',
  at_ms: NOW_MS,
  tenant_id: 'ten_default',
  key_id: 'key_1',
  request: 'req_1',
  request_id: 'label',
  provider_id: 'prov_a',
  model_id: 'mod_a',
  score: -0.5,
  comment: 'too long',
  metric: 'quality',
  tags: { page: 'help' },
  ...more,
})

test('names what answered, or says that it is not known', async () => {
  const rows = [stored({}), stored({ id: 'fb_2', provider_id: 'prov_gone', model_id: null, comment: null, tags: {} })]
  const feedback = {
    list: async () => ({ feedback: rows, total: rows.length }),
    means: async () => ({ models: [], untilMs: 0 }),
  }
  const live = { control: null as never }
  const gateway = startGateway(feedbackRoutes({ feedback, live, nowMs: () => NOW_MS }))
  Object.assign(live, { control: gateway.state })
  gateway.apply([providerCreated('prov_a', 'openai'), modelCreated('mod_a', 'prov_a')])
  const { status, body } = await gateway.call('GET', '/feedback')
  expect([status, body.total]).toEqual([200, 2])
  const shown = body.feedback as Record<string, unknown>[]
  for (const row of shown) expect(flawsOf(FeedbackRow, row)).toEqual([])
  expect(shown[0]).toMatchObject({ request: 'req_1', request_id: 'label', provider: 'openai', score: -0.5 })
  expect(shown[0]!.model).toBeString()
  expect(shown[1]).toMatchObject({ provider: null, provider_id: 'prov_gone', model: null, comment: null })
})
