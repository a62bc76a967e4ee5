// Either of two processes is asked for a request that the other has just answered: it is found by id, and feedback by
// label refers to the latest of both.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { eventually } from '../../services/eventually.ts'
import { type GatewayProcess, startGateway } from '../../services/gateway.ts'

let gateway: GatewayProcess
beforeAll(async () => {
  gateway = startGateway({ settings: { server: { processes: 2 } } })
  await gateway.until('ready', 180_000)
  await eventually('the read model is built', async () => (await asked('/admin/v1/requests')).status === 200)
}, 200_000)
afterAll(() => gateway.remove(), 40_000)

/** A connection of its own: they are spread over the processes. */
const asked = async (path: string, body?: object, label?: string) => {
  const headers = { connection: 'close', ...(label !== undefined && { 'x-request-id': label }) }
  const answer = await gateway.request(path, { headers, ...(body && { method: 'POST', body }) })
  return { status: answer.status, headers: answer.headers, body: (await answer.json()) as Record<string, unknown> }
}
const answered = async (label?: string): Promise<string> => {
  const body = { model: 'sandbox-echo', messages: [{ role: 'user', content: 'Hello' }] }
  const { status, headers } = await asked('/v1/chat/completions', body, label)
  expect(status).toBe(200)
  return headers.get('x-request-id')!
}

test('a request that was just answered has a view and an explanation, and takes feedback', async () => {
  for (let round = 0; round < 6; round++) {
    const id = await answered()
    const answers = await Promise.all([
      asked(`/admin/v1/requests/${id}`),
      asked(`/admin/v1/requests/${id}/explain`),
      asked('/v1/feedback', { request_id: id, score: 1 }),
    ])
    expect(answers.map(({ status, body }) => [status, body.request_id])).toEqual([
      [200, id],
      [200, id],
      [201, id],
    ])
  }
}, 60_000)

test('feedback by label is about the latest, whichever process answered it', async () => {
  const labels = Array.from({ length: 6 }, (_, round) => `label-${round}`)
  for (const label of labels) {
    for (let times = 0; times < 4; times++) await answered(label)
    expect((await asked('/v1/feedback', { request_id: label, score: 1 })).status).toBe(201)
  }
  for (const label of labels) {
    await eventually(`feedback on ${label} is of its latest request`, async () => {
      const { requests } = (await asked(`/admin/v1/requests?search=${label}`)).body as { requests: { id: string }[] }
      const { feedback } = (await asked(`/admin/v1/feedback`)).body as { feedback: Record<string, string>[] }
      const given = feedback.find(({ request_id }) => request_id === label)
      return requests.length === 4 && given !== undefined && given.request === requests[0]!.id
    })
  }
}, 120_000)
