// What the audit shows to a tenant: its own rows, without keys and tenants of others that they name.
import { expect, test } from 'bun:test'
import { auditRoutes } from '../../../../src/http/admin/reads/audit.ts'
import { startGateway } from '../world/gateway.ts'

const opened = () => {
  const rows: object[] = []
  const live = { control: null as never }
  const audit = {
    list: async () => ({ events: rows, total: rows.length }),
    async *pages() {
      yield rows
    },
  }
  const gateway = startGateway(auditRoutes({ audit: audit as never, live, nowMs: () => 0 }))
  Object.assign(live, { control: gateway.state })
  return { gateway, rows }
}

// docs/behaviour.md: "Tenants"
test('GET /audit names no key and no tenant of another tenant to a key without *, in no format', async () => {
  const { gateway, rows } = opened()
  const reader = gateway.keyWith(['usage:read'], 'ten_other')
  const [own = ''] = gateway.state.table('keys').find('tenant', 'ten_other')
  rows.push({
    id: 'x.0',
    before: { target: 'key:key_admin', reason: null },
    after: { target: `key:${own}`, scopes: ['tenant:ten_default', 'tenant:ten_other', 'key:key_gone', 'endpoint:a'] },
  })
  const shown = { before: { target: 'key:[hidden]', reason: null } }
  const after = { target: `key:${own}`, scopes: ['tenant:[hidden]', 'tenant:ten_other', 'key:[hidden]', 'endpoint:a'] }
  const { body, status } = await gateway.call('GET', '/audit', { key: reader })
  expect([status, body.events]).toEqual([200, [{ id: 'x.0', ...shown, after }]])
  for (const format of ['csv', 'ndjson']) {
    const { body: file } = await gateway.call('GET', `/audit?format=${format}`, { key: reader })
    const answer = JSON.stringify(file)
    expect(answer).toContain(own)
    for (const word of ['key_admin', 'key_gone', 'ten_default']) expect(answer).not.toContain(word)
  }
  expect((await gateway.call('GET', '/audit')).body.events).toEqual(rows)
})
