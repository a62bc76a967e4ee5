// What the reads answer while there is no Postgres, or nothing in it yet.
import { describe, expect, test } from 'bun:test'
import type { Sql } from '../../../../projections/database.ts'
import { sharedPostgres } from '../../../services/postgres.ts'
import { databaseAt, gatewayOn } from '../world/read-world.ts'

// docs/behaviour.md: "Admin reads"
describe('while Postgres is away', () => {
  const expectUnavailable = async (
    connection: Sql,
    paths = ['/requests', '/requests/req_1', '/errors', '/usage/summary', '/usage/series', '/audit'],
  ) => {
    const away = gatewayOn(connection)
    for (const path of paths) {
      const { status, headers, body } = await away.call('GET', path)
      expect([path, status, headers.get('x-gateway-retryable')]).toEqual([path, 502, 'true'])
      expect(body.error).toMatchObject({ code: 'upstream_error', message: expect.stringContaining('read store') })
    }
    await connection.end({ timeout: 0 })
  }

  test('no server listens: the envelope, retryable', async () => {
    const listener = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
    listener.stop(true)
    await expectUnavailable(databaseAt(`postgres://u:p@127.0.0.1:${listener.port}/x`))
  })

  test('a server listens and never answers: the envelope all the same', async () => {
    const listener = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
    await expectUnavailable(databaseAt(`postgres://u:p@127.0.0.1:${listener.port}/x`), ['/requests'])
    listener.stop(true)
  }, 60_000)

  test('nothing was built yet: the envelope says so', async () => {
    const empty = await sharedPostgres()
    const connection = databaseAt(empty.url)
    const { status, body } = await gatewayOn(connection).call('GET', '/requests')
    expect([status, (body.error as { message: string }).message]).toEqual([
      502,
      expect.stringContaining('is being built'),
    ])
    await connection.end()
    await empty.remove()
  })
})
