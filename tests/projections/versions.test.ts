// A new version of a read model is made beside the old one, and readers are switched to it when it has caught up.
import { expect, test } from 'bun:test'
import { type AnyProjection, activeBuild } from '../../projections/builds.ts'
import { keepModel, newView } from '../../projections/keep.ts'
import { requestsProjection } from '../../projections/requests/project.ts'
import { TUNING } from '../../projections/worker.ts'
import { eventually } from '../services/eventually.ts'
import { silent } from '../services/postgres.ts'
import { testStore } from './store.ts'
import { REQUESTS, sender, testLog } from './support.ts'

const store = testStore()

test('the old tables are read until the new ones have caught up; the outdated worker then leaves them alone', async () => {
  const log = testLog()
  const one = sender()
  for (let at = 0; at < 20; at++) await log.append(REQUESTS, 0, one.both(`req_${at}`))
  const old = store.follow(log)
  const oldSchema = await store.applied('requests', 40)

  let resumeDeadlines = () => {}
  const held = new Promise<void>((resolve) => {
    resumeDeadlines = resolve
  })
  const slow: AnyProjection = {
    ...(requestsProjection as unknown as AnyProjection),
    version: requestsProjection.version + 1,
    async prepare(...args) {
      await held
      await requestsProjection.prepare!(...args)
    },
  }
  const stopping = new AbortController()
  const keeping = keepModel({
    projection: slow,
    sql: store.sql,
    log,
    signal: stopping.signal,
    diagnostics: silent,
    ...TUNING,
    pollMs: 20,
    view: newView(),
  })
  await eventually('the new build', async () => {
    const rows =
      await store.sql`select 1 from gatelog.build where model = 'requests' and version = ${slow.version} and state = 'building'`
    return rows[0] ?? null
  })
  expect((await activeBuild(store.sql, 'requests'))!.schemaName).toBe(oldSchema)
  await log.append(REQUESTS, 0, one.both('req_meanwhile'))
  await store.applied('requests', 42)
  resumeDeadlines()
  const active = await eventually('the switch', async () => {
    const build = await activeBuild(store.sql, 'requests')
    return build?.version === slow.version ? build : null
  })
  const [count] = await store.sql<
    { rows: number }[]
  >`select count(*)::int as rows from ${store.sql(`${active.schemaName}.request`)}`
  expect(count!.rows).toBe(21)

  await log.append(REQUESTS, 0, one.both('req_after'))
  await store.applied('requests', 44)
  const status = await eventually('the outdated worker says so', async () => {
    const rows = await store.sql<{ detail: string }[]>`select detail from gatelog.status where model = 'requests'`
    return rows[0]?.detail.includes('outdated') ? rows[0] : null
  })
  expect(status.detail).toContain('a newer version of requests is active')
  stopping.abort()
  await keeping
  await old.stop()
})
