// C2: the broker's answers are lost after it has appended. Nothing is applied twice, and no writer gets a conflict with
// its own write.
// `bun tests/faults/control/lost-acks.ts [--commands 300]`: two instances on a real broker, behind a proxy that drops
// its answers, again and again.
import { Rejection } from '../../../src/domain/kernel/rejection.ts'
import { sha256Hex } from '../../../src/lib/crypto/digest.ts'
import { CommitFailure, type CommitResult } from '../../../src/state/port.ts'
import { startTcpProxy } from '../../services/tcp-proxy.ts'
import { createTenant, type Instance } from '../../state/support.ts'
import { conclude, type Figure, numberArgument } from './figures.ts'
import { agreeing, closeAll, kafkaWorld, memoryWorld, openInstances, type World } from './world.ts'

/** Commands that each instance has under way at once. */
const AT_ONCE = 4
const MAX_REPEATS = 20

interface Tally {
  conflicts: number
  unknown: number
  never: number
}

/** Sends the command as a caller does after an unknown outcome: again, with the same Idempotency-Key. */
const persist = async ({ queue }: Instance, slug: string, tally: Tally): Promise<CommitResult | null> => {
  const cause = { id: sha256Hex(`cause ${slug}`), body: sha256Hex('body') }
  for (let repeat = 0; repeat < MAX_REPEATS; repeat++) {
    try {
      return await queue.commit(createTenant(slug, { cause }))
    } catch (error) {
      if (error instanceof Rejection) {
        tally.conflicts++
        return null
      }
      if (!(error instanceof CommitFailure)) throw error
      tally.unknown++
    }
  }
  tally.never++
  return null
}

/** `faults` runs beside the commands until it is aborted. Closes the world. */
export const lostAcks = async (
  world: World,
  commands: number,
  faults: (signal: AbortSignal) => Promise<number>,
  named = 'answers of the log dropped after its appends',
): Promise<readonly Figure[]> => {
  const instances = await openInstances(world, 2)
  try {
    const tally: Tally = { conflicts: 0, unknown: 0, never: 0 }
    const acknowledged = new Map<string, string>()
    let next = 0
    const lane = async (instance: Instance) => {
      for (let n = next++; n < commands; n = next++) {
        const result = await persist(instance, `ack-${n}`, tally)
        if (result !== null) acknowledged.set(`ack-${n}`, result.revision)
      }
    }
    const done = new AbortController()
    const faulted = faults(done.signal)
    await Promise.all(instances.flatMap((instance) => Array.from({ length: AT_ONCE }, () => lane(instance))))
    done.abort()
    const dropped = await faulted
    const { equal, of } = await agreeing(world, instances)
    const { live } = instances[0]!
    const tenants = live.control.table('tenants')
    const slugs = [...acknowledged.keys()]
    const twice = slugs.filter((slug) => tenants.find('slug', slug).length > 1).length
    const lost = slugs.filter((slug) => tenants.find('slug', slug).length === 0).length
    const what = `${named}, ${dropped} times; the command repeated with its Idempotency-Key`
    const counts =
      `applied twice ${twice}, false 409 ${tally.conflicts}, acknowledged and ` +
      `lost ${lost}, never answered ${tally.never}`
    const good = twice + lost + tally.conflicts + tally.never === 0 && equal === of
    const figure = `${counts}; told "unknown" on the way ${tally.unknown}; digests equal ${equal} of ${of}`
    return [{ row: 'C2', what, figure, n: commands, good }]
  } finally {
    await closeAll(world, instances)
  }
}

/** In memory: every third append loses its answer, every seventh its request. */
export const lostAcksInMemory = (commands: number): Promise<readonly Figure[]> => {
  const world = memoryWorld()
  let appends = 0
  let dropped = 0
  const faulty: World = {
    ...world,
    view: () =>
      world.view({
        beforeAppend() {
          appends++
          if (appends > 1 && appends % 3 === 0) {
            dropped++
            return 'lost_answer'
          }
          return appends > 1 && appends % 7 === 0 ? 'lost_request' : 'none'
        },
      }),
  }
  return lostAcks(faulty, commands, async (signal) => {
    await new Promise((resolve) => signal.addEventListener('abort', resolve))
    return dropped
  })
}

if (import.meta.main) {
  const proxy = await startTcpProxy()
  const world = await kafkaWorld({ through: proxy })
  const figures = await lostAcks(world, numberArgument('commands', 300), async (signal) => {
    let times = 0
    while (!signal.aborted) {
      await Bun.sleep(40 + Math.random() * 120)
      proxy.dropAnswers = true
      times++
      await Bun.sleep(20 + Math.random() * 60)
      proxy.dropAnswers = false
      proxy.cut() // connections whose answers were swallowed would wait for them
    }
    return times
  })
  await proxy.stop()
  conclude(figures)
}
