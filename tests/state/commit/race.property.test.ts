// Two and three writers over one log, with lost answers, lost requests, delays, refusals and crashes, in any
// interleaving.
import { describe, expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { decideTenant } from '../../../src/domain/access/tenant.ts'
import { GENESIS } from '../../../src/domain/kernel/decision.ts'
import { Rejection } from '../../../src/domain/kernel/rejection.ts'
import { type AppendFault, type MemoryFaults, memoryLog } from '../../../src/log/memory.ts'
import { CONTROL, foldAgain } from '../../../src/state/fold.ts'
import { CommitFailure, type CommitRequest } from '../../../src/state/port.ts'
import { actor, begin, type Instance, macKey, nowMs, openInstance } from '../support.ts'

const turns = async (count: number) => {
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve))
}

interface WriterScript {
  /** Slug (0 to 3) and verb of each command, and after how many turns it is given. */
  commands: { slug: number; verb: 'create' | 'rename' | 'delete'; after: number }[]
  appends: { fault: AppendFault; before: number; after: number }[]
  deliveries: { count: number; delay: number }[]
  /** After that many appends the process dies: nothing of it is heard again. */
  diesAt: number | null
}

const writerWaiting = (turnsAtMost: number): fc.Arbitrary<WriterScript> =>
  fc.record({
    commands: fc.array(
      fc.record({
        slug: fc.nat(3),
        verb: fc.constantFrom('create' as const, 'create' as const, 'rename' as const, 'delete' as const),
        after: fc.nat(6),
      }),
      { minLength: 1, maxLength: 8 },
    ),
    appends: fc.array(
      fc.record({
        fault: fc.constantFrom<AppendFault>('none', 'none', 'none', 'lost_answer', 'lost_request', 'unavailable'),
        before: fc.nat(turnsAtMost),
        after: fc.nat(turnsAtMost),
      }),
      { minLength: 1, maxLength: 8 },
    ),
    deliveries: fc.array(fc.record({ count: fc.integer({ min: 1, max: 4 }), delay: fc.nat(6) }), {
      minLength: 1,
      maxLength: 8,
    }),
    diesAt: fc.option(fc.nat(4), { freq: 4, nil: null }),
  })

const writer = writerWaiting(5)
/** Some of its appends take longer than a command has. */
const slowWriter = writerWaiting(800)

/** The faults of a script; past its end everything goes well, so that the run comes to its end. */
const faultsOf = (script: WriterScript): MemoryFaults & { dead: boolean } => {
  let appended = 0
  let delivered = 0
  let answered = 0
  const hang = () => new Promise<never>(() => {})
  const faults = {
    dead: false,
    async beforeAppend(): Promise<AppendFault> {
      if (faults.dead) return hang()
      const step = script.appends[appended++]
      await turns(step?.before ?? 0)
      return step?.fault ?? 'none'
    },
    async afterAppend() {
      const step = script.appends[answered++]
      await turns(step?.after ?? 0)
      if (script.diesAt !== null && answered > script.diesAt) faults.dead = true
      if (faults.dead) await hang()
    },
    async beforeDeliver({ available }: { available: number }) {
      const step = script.deliveries[delivered++]
      await turns(step?.delay ?? 0)
      if (faults.dead) await hang()
      return step?.count ?? available
    },
    async beforeEnd() {
      if (faults.dead) await hang()
    },
  }
  return faults
}

interface Told {
  mark: string
  outcome: 'changed' | 'unchanged' | 'refused' | 'stopping' | 'unknown' | 'unavailable' | 'dead'
  revision: string | null
}

const commandOf = ({ slug, verb }: WriterScript['commands'][number], mark: string): CommitRequest => ({
  actor: { ...actor, id: mark }, // finds the decision of a command in the log again
  decide: (state) => {
    const taken = state.table('tenants').find('slug', `s${slug}`)[0]
    if (verb === 'create') {
      return decideTenant(state, {
        do: 'create',
        id: `ten_${mark}`,
        slug: `s${slug}`,
        name: mark,
        plan: null,
        managed_by: 'api',
      })
    }
    if (taken === undefined) throw new Rejection('not_found', 'no such tenant')
    return verb === 'rename'
      ? decideTenant(state, { do: 'replace', id: taken, name: mark, plan: null, managed_by: 'api' })
      : decideTenant(state, { do: 'delete', id: taken, force: true, nowMs: 0 })
  },
})

/** The counting rule again, in its plainest form: ids of the decisions that count, in order, with their actors. */
const countedIn = (values: readonly (Uint8Array | null)[]): { id: string; mark: string }[] => {
  const counted: { id: string; mark: string }[] = []
  let tip = GENESIS
  for (const value of values) {
    const decision = JSON.parse(Buffer.from(value!).toString())
    if (decision.parent !== tip) continue
    tip = createHash('sha256').update(value!).digest('hex')
    counted.push({ id: tip, mark: decision.actor.id })
  }
  return counted
}

const race = async (scripts: readonly WriterScript[], limitMs: number) => {
  const log = memoryLog({ nowMs })
  await begin(log)
  const faults = scripts.map(faultsOf)
  const instances: Instance[] = []
  for (const [index, fault] of faults.entries()) {
    instances.push(await openInstance(`i${index}`, log.view(fault), { lookMs: 15, retryMs: 2, limitMs }))
  }
  const told: Told[] = []
  await Promise.all(
    scripts.map(async ({ commands }, index) => {
      const { queue, live } = instances[index]!
      const ended = commands.map(async (command, number) => {
        await turns(commands.slice(0, number + 1).reduce((sum, { after }) => sum + after, 0))
        const mark = `w${index}-${number}`
        const result = queue.commit(commandOf(command, mark)).then(
          ({ changed, revision }): Told => ({ mark, outcome: changed ? 'changed' : 'unchanged', revision }),
          (error): Told => {
            if (error instanceof Rejection) return { mark, outcome: 'refused', revision: null }
            if (error instanceof CommitFailure && error.kind !== 'too_large' && error.kind !== 'refused') {
              return { mark, outcome: error.kind, revision: null }
            }
            throw error
          },
        )
        const died = live.condition
          .until(() => faults[index]!.dead, 5_000)
          .then((): Told => ({ mark, outcome: 'dead', revision: null }))
        told.push(await Promise.race([result, died]))
      })
      // A dead process is detected by polling: its death raises no event.
      const watch = setInterval(() => faults[index]!.dead && live.condition.notify(), 5)
      await Promise.all(ended)
      clearInterval(watch)
    }),
  )
  // What was sent and given up may still arrive: only what stands in the log in the end can be judged.
  for (let length = -1; length !== log.records(CONTROL).length; await turns(limitMs < 100 ? 2_000 : 20))
    length = log.records(CONTROL).length
  const end = log.records(CONTROL).length
  const alive = instances.filter((_, index) => !faults[index]!.dead)
  for (const { live } of alive) await live.condition.until(() => live.next === end, 20_000)
  const replay = await foldAgain(log, macKey, new AbortController().signal)
  const states = alive.map(({ live }) => ({
    next: live.next,
    tip: live.tip,
    digest: live.status().digest,
    degraded: live.status().degraded,
  }))
  const counted = countedIn(
    log
      .records(CONTROL)
      .filter(({ value }) => !Buffer.from(value!).includes('{"turn":'))
      .map(({ value }) => value),
  )
  for (const instance of alive) await instance.close()
  return { told, states, replay, counted, end }
}

const holdWithin = (limitMs: number) => async (scripts: readonly WriterScript[]) => {
  const { told, states, replay, counted, end } = await race(scripts, limitMs)
  const ids = counted.map(({ id }) => id)
  expect(replay.counts.counted).toBe(counted.length)
  expect(replay.tip).toBe(ids.at(-1)!)
  // Every instance agrees, and with a full replay.
  for (const state of states)
    expect(state).toEqual({ next: end, tip: replay.tip, digest: replay.state.digest(), degraded: null })
  // What was acknowledged is in the chain, once; what was refused or certainly not done is not.
  const of = (mark: string) => counted.filter((decision) => decision.mark === mark)
  for (const { mark, outcome, revision } of told) {
    if (outcome === 'changed') expect(of(mark).map(({ id }) => id)).toEqual([revision!])
    if (outcome === 'refused' || outcome === 'unavailable' || outcome === 'unchanged') expect(of(mark)).toEqual([])
    expect(of(mark).length).toBeLessThanOrEqual(1)
  }
}

describe('any interleaving of writers over one log', () => {
  const runs = { numRuns: 150, endOnFailure: true }
  test('two writers', async () => {
    await fc.assert(fc.asyncProperty(fc.tuple(writer, writer), holdWithin(1_500)), runs)
  }, 60_000)

  test('three writers', async () => {
    await fc.assert(fc.asyncProperty(fc.tuple(writer, writer, writer), holdWithin(1_500)), runs)
  }, 60_000)

  test('two writers whose commands run out of time while an append is under way', async () => {
    await fc.assert(fc.asyncProperty(fc.tuple(slowWriter, slowWriter), holdWithin(4)), runs)
  }, 60_000)
})
