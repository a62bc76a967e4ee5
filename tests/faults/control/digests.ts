// C10: the state is the same however it was folded. `bun tests/faults/control/digests.ts [--decisions 20000]`: on a
// real broker.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { EventRecord } from '../../../src/domain/kernel/decision.ts'
import type { EventLog } from '../../../src/log/port.ts'
import { CONTROL, foldAgain } from '../../../src/state/fold.ts'
import { writeSnapshot } from '../../../src/state/history/snapshot.ts'
import { keyIssued, modelCreated, providerCreated, tenantCreated } from '../../domain/world.ts'
import { actor, begin, macKey, openInstance } from '../../state/support.ts'
import { conclude, type Figure, numberArgument } from './figures.ts'
import { kafkaWorld, type World } from './world.ts'

export interface Digests {
  readonly decisions: number
  readonly lost: number
  readonly unreadable: number
  /**
   * Digests of a state folded while the log was written, of a replay of the whole log, and of a snapshot with the
   * records after it.
   */
  readonly incremental: string
  readonly fullReplay: string
  readonly snapshotAndTail: string
}

const AT_ONCE = 64

/** Rows of every kind come, change and go; of each ten decisions one has a cause. */
const eventsOf = (n: number): EventRecord[] => {
  const [tenant, provider] = [`ten_${n - (n % 12)}`, `prov_${n - (n % 12)}`]
  const steps: EventRecord[][] = [
    [tenantCreated(tenant, `t-${n}`), providerCreated(provider, `p-${n}`)],
    [keyIssued(`key_${n}`, tenant), modelCreated(`mod_${n}`, provider)],
    [{ type: 'tenant.replaced', data: { id: tenant, name: `name ${n}`, plan: n % 2 === 0 ? null : 'gold' } }],
    [{ type: 'provider.changed', data: { id: provider, region: `r-${n}`, options: { b: 1, a: [n, null] } } }],
    [{ type: 'api_key.revoked', data: { id: `key_${n - 3}` } }],
    [{ type: 'model.changed', data: { id: `mod_${n - 4}`, priority: n, aliases: [`alias-${n}`] } }],
  ]
  const gone = n % 36 === 35 ? [{ type: 'provider.deleted', data: { id: provider } }] : []
  return [...(steps[n % 12] ?? steps[2]!), ...gone]
}

/** Writes so many decisions with losers and garbage among them, and folds them in three ways. Closes the world. */
export const foldedInThreeWays = async (world: World, decisions: number): Promise<Digests> => {
  const dataDir = await mkdtemp(join(tmpdir(), 'gatelog-digests-'))
  const views = Array.from({ length: 4 }, () => world.view())
  const [log, forOne, forOther, forRestarted] = views as [EventLog, EventLog, EventLog, EventLog]
  try {
    await begin(log)
    const [one, other] = [await openInstance('a', forOne), await openInstance('b', forOther)]
    await Promise.all([one.live.ready(), other.live.ready()])
    for (let from = 0; from < decisions; from += AT_ONCE) {
      const numbers = Array.from({ length: Math.min(AT_ONCE, decisions - from) }, (_, at) => from + at)
      await Promise.all(
        numbers.map((n) => {
          const cause = n % 10 === 0 ? { id: `cause ${n}`, body: '' } : null
          return (n % 2 === 0 ? one : other).queue.commit({ actor, cause, decide: () => eventsOf(n) })
        }),
      )
      await log.append(CONTROL, 0, [{ key: null, value: Buffer.from(`garbage ${from}`) }])
      if (from <= decisions / 2 && from + AT_ONCE > decisions / 2)
        writeSnapshot(dataDir, await foldAgain(log, macKey, new AbortController().signal), Date.now())
    }
    const end = await log.end(CONTROL, 0)
    await one.live.condition.until(() => one.live.next >= end, 60_000)
    const { counts, digest: incremental } = one.live.status()
    const replayed = await foldAgain(log, macKey, new AbortController().signal)
    const restarted = await openInstance('c', forRestarted, { dataDir })
    await restarted.live.ready()
    const digests = {
      decisions: counts.counted,
      lost: counts.lost,
      unreadable: counts.unreadable,
      incremental,
      fullReplay: replayed.state.digest(),
      snapshotAndTail: restarted.live.status().digest,
    }
    for (const each of [one, other, restarted]) await each.close()
    return digests
  } finally {
    for (const view of views) await view.close()
    await world.close()
    await rm(dataDir, { recursive: true, force: true })
  }
}

export const digestFigures = async (world: World, count: number): Promise<Figure[]> => {
  const { kind } = world
  const { fullReplay, incremental, snapshotAndTail, decisions, lost, unreadable } = await foldedInThreeWays(
    world,
    count,
  )
  const equal = [fullReplay, incremental, snapshotAndTail].filter((digest) => digest === fullReplay).length
  const what =
    'digest from full replay, incremental, and snapshot with tail, ' +
    `${kind === 'kafka' ? 'on a real broker' : 'in memory'}`
  const figure = `equal ${equal} of 3 (${lost} lost and ${unreadable} unreadable records among the decisions)`
  return [{ row: 'C10', what, figure, n: decisions, good: equal === 3 }]
}

if (import.meta.main) conclude(await digestFigures(await kafkaWorld(), numberArgument('decisions', 20_000)))
