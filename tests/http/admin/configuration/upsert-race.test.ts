// An upsert that changes nothing, while another caller deletes the row: it answers the row that it found.
import { expect, test } from 'bun:test'
import { Elysia } from 'elysia'
import { adminRoutes, adminTable } from '../../../../src/http/admin/runner.ts'
import type { Commit } from '../../../../src/state/port.ts'
import { bodyOf, furnish, OWN } from '../world/furnished.ts'
import { ADMIN_KEY, BASE, startGateway } from '../world/gateway.ts'

const upserts = adminTable(startGateway().deps)
  .filter(({ method, path }) => method === 'PUT' && !path.includes(':'))
  .map(({ path }) => path)

test('every upsert is looked at', () => {
  expect(upserts.toSorted()).toEqual(['/budgets', '/cache/policies', '/endpoints', '/policies', '/tool-policies'])
})

test.each(upserts)('PUT %s', async (path) => {
  const { gateway, table, own } = await furnish()
  const body = bodyOf(table.find((route) => route.path === path && route.method === 'PUT')!, own, OWN)
  const first = await gateway.call('PUT', path, { body })
  const commit: Commit = async (request) => {
    const result = await gateway.deps.commit(request)
    await gateway.call('DELETE', `${path}/${first.body.id}`)
    return result
  }
  const racing = new Elysia().use(adminRoutes({ ...gateway.deps, furtherRoutes: [], commit }))
  const headers = { authorization: `Bearer ${ADMIN_KEY}`, 'content-type': 'application/json' }
  const request = new Request(`${BASE}${path}`, { method: 'PUT', headers, body: JSON.stringify(body) })
  const second = await racing.handle(request)
  expect(second.status).toBe(200)
  expect((await second.json()) as object).toEqual(first.body)
  expect((await gateway.call('GET', `${path}/${first.body.id}`)).status).toBe(404)
})
