// C1: instances decide against each other at once. Of the commands that compete for one thing exactly one succeeds,
// every time, and all instances end in one state.
// `bun tests/faults/control/races.ts [--races 1000] [--instances 5]`: over two and over five instances, or over the
// given number, on a real broker.
import { type ApiKeyCommand, decideApiKey } from '../../../src/domain/access/api-key.ts'
import { decideTenant, type TenantCommand } from '../../../src/domain/access/tenant.ts'
import type { ControlReader } from '../../../src/domain/control.ts'
import type { EventRecord } from '../../../src/domain/kernel/decision.ts'
import { Rejection } from '../../../src/domain/kernel/rejection.ts'
import { requireMatch } from '../../../src/http/admin/write.ts'
import { sha256Hex } from '../../../src/lib/crypto/digest.ts'
import { actor, type Instance, nowMs } from '../../state/support.ts'
import { conclude, type Figure, numberArgument } from './figures.ts'
import { agreeing, closeAll, kafkaWorld, openInstances, type World } from './world.ts'

/** Races of one kind that run at the same time. */
const AT_ONCE = 8
const granter = { scopes: ['*'] } as const

type Decide = (state: ControlReader) => readonly EventRecord[]
type Outcome = 'won' | 'refused'

interface Race {
  readonly what: string
  /** What stands before race `n`. */
  prepare(n: number): readonly Decide[]
  /** What the instance does in it. `before`: the state in which the race begins. */
  decide(n: number, instance: number, before: ControlReader): Decide
  /** Whether the outcomes, by instance, are those of one winner. */
  right(outcomes: readonly Outcome[]): boolean
}

const tenant =
  (command: TenantCommand): Decide =>
  (state) =>
    decideTenant(state, command)
const key =
  (command: ApiKeyCommand): Decide =>
  (state) =>
    decideApiKey(state, command)
const make = (id: string, slug: string): Decide =>
  tenant({ do: 'create', id, slug, name: slug, plan: null, managed_by: 'api' })
const issue = (id: string, tenantId: string): Decide =>
  key({
    do: 'issue',
    granter,
    id,
    tenant_id: tenantId,
    name: id,
    scopes: ['inference'],
    digest: sha256Hex(id),
    expires_at: null,
    routing_policy_id: null,
    rate_limits: null,
    managed_by: 'api',
  })
/** The same, but only on the row as it was prepared: what If-Match does. */
const unchanged = (before: ControlReader, table: 'tenants' | 'keys', id: string, decide: Decide): Decide => {
  const seen = before.table(table).get(id)!.revision
  return (state) => {
    const events = decide(state)
    requireMatch([seen], state.table(table).get(id))
    return events
  }
}
const one = (outcomes: readonly Outcome[]): boolean => outcomes.filter((outcome) => outcome === 'won').length === 1

const RACES: readonly Race[] = [
  {
    what: 'the same name created',
    prepare: () => [],
    decide: (n, instance) => make(`ten_name_${n}_${instance}`, `name-${n}`),
    right: one,
  },
  {
    what: 'PUT against PUT, If-Match',
    prepare: (n) => [make(`ten_put_${n}`, `put-${n}`)],
    decide: (n, instance, before) =>
      unchanged(before, 'tenants', `ten_put_${n}`, (state) =>
        decideTenant(state, {
          do: 'replace',
          id: `ten_put_${n}`,
          name: `by ${instance}`,
          plan: null,
          managed_by: 'api',
        }),
      ),
    right: one,
  },
  {
    what: 'rotate against revoke, If-Match',
    prepare: (n) => [make(`ten_key_${n}`, `key-${n}`), issue(`key_${n}`, `ten_key_${n}`)],
    decide: (n, instance, before) =>
      unchanged(
        before,
        'keys',
        `key_${n}`,
        instance % 2 === 0
          ? key({ do: 'revoke', id: `key_${n}` })
          : key({ do: 'rotate', granter, id: `key_${n}`, digest: sha256Hex(`${n} ${instance}`) }),
      ),
    right: one,
  },
  {
    what: 'tenant deleted against key issued in it',
    prepare: (n) => [make(`ten_gone_${n}`, `gone-${n}`)],
    decide: (n, instance) =>
      instance % 2 === 0
        ? tenant({ do: 'delete', id: `ten_gone_${n}`, force: false, nowMs: nowMs() })
        : issue(`key_gone_${n}_${instance}`, `ten_gone_${n}`),
    right(outcomes) {
      const deleted = outcomes.filter((outcome, instance) => instance % 2 === 0 && outcome === 'won').length
      const issued = outcomes.filter((outcome, instance) => instance % 2 === 1 && outcome === 'won').length
      return deleted === 0 ? issued === Math.floor(outcomes.length / 2) : deleted === 1 && issued === 0
    },
  },
]

const attempt = async ({ queue }: Instance, decide: Decide): Promise<Outcome> => {
  try {
    return (await queue.commit({ actor, decide })).changed ? 'won' : 'refused'
  } catch (error) {
    if (error instanceof Rejection) return 'refused'
    throw error
  }
}

const run = async (race: Race, instances: readonly Instance[], races: number): Promise<number> => {
  const numbers = Array.from({ length: races }, (_, n) => n)
  for (const step of [0, 1]) {
    const prepared = numbers.flatMap((n) => race.prepare(n)[step] ?? [])
    await Promise.all(prepared.map((decide) => attempt(instances[0]!, decide)))
  }
  const { tip } = instances[0]!.live
  for (const { live } of instances) await live.reached(tip, 10_000)
  let right = 0
  let next = 0
  const lane = async () => {
    for (let n = next++; n < races; n = next++) {
      const decides = instances.map((_, at) => race.decide(n, at, instances[0]!.live.control))
      const outcomes = await Promise.all(instances.map((instance, at) => attempt(instance, decides[at]!)))
      if (race.right(outcomes)) right++
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, lane))
  return right
}

/** Every kind of race so often, over so many instances. Closes the world. */
export const races = async (world: World, count: number, times: number): Promise<readonly Figure[]> => {
  const instances = await openInstances(world, count)
  try {
    const figures: Figure[] = []
    for (const race of RACES) {
      const right = await run(race, instances, times)
      const what = `${count} instances race: ${race.what}`
      figures.push({ row: 'C1', what, figure: `one winner ${right} of ${times}`, n: times, good: right === times })
    }
    const { equal, of } = await agreeing(world, instances)
    const losses = instances.reduce((sum, { queue }) => sum + queue.status().losses, 0)
    const figure = `digests equal ${equal} of ${of} (a fold of the whole log among them); appends that lost ${losses}`
    figures.push({ row: 'C1', what: `${count} instances, afterwards`, figure, n: of, good: equal === of })
    return figures
  } finally {
    await closeAll(world, instances)
  }
}

if (import.meta.main) {
  const times = numberArgument('races', 1_000)
  const figures: Figure[] = []
  const given = numberArgument('instances', 0)
  for (const count of given === 0 ? [2, 5] : [given]) figures.push(...(await races(await kafkaWorld(), count, times)))
  conclude(figures)
}
