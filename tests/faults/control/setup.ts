// Set-up: two or three instances of three are asked at once, each time on a chain that has just begun. One of them makes the first operator, and all three know it.
// `bun tests/faults/control/setup.ts [--rounds 1000]`: on a real broker, a topic of its own for each round.
import { startKafka } from '../../../infra/kafka/kafka.ts'
import { decideOperator } from '../../../src/domain/operator.ts'
import { Rejection } from '../../../src/domain/rejection.ts'
import { newId } from '../../../src/lib/ids.ts'
import { createSessions } from '../../../src/upkeep/sessions.ts'
import { type Instance, nowMs, quiet } from '../../state/support.ts'
import { conclude, type Figure, numberArgument } from './figures.ts'
import { agreeing, closeAll, kafkaWorld, openInstances, type World } from './world.ts'

const INSTANCES = 3

/** As the route does it, but for the hash. False: set-up was closed. */
const setUp = async ({ live, queue }: Instance, username: string): Promise<boolean> => {
  const id = newId('op')
  const secrets = { name_digests: [username] as const, key_id: newId('dek'), sealed: 'sealed' }
  const sessions = createSessions({ live, commit: queue.commit, newId, nowMs, diagnostics: quiet })
  try {
    await sessions.open(id, null, null, (state) => decideOperator(state, { do: 'set_up', id, ...secrets }))
    return true
  } catch (error) {
    if (error instanceof Rejection && error.reason === 'forbidden') return false
    throw error
  } finally {
    sessions.stop()
  }
}

/** What was wrong with a race, or null. `losses`: appends that another one came before. */
const race = async (number: number, world: World): Promise<{ flaw: string | null; losses: number }> => {
  const instances = await openInstances(world, INSTANCES)
  // Pairs in turn, and every fourth time all. The names differ: the latch decides, not the name.
  const racing = instances.filter((_, at) => number % 4 === 3 || at !== number % INSTANCES)
  const won = await Promise.all(racing.map((instance, at) => setUp(instance, `name ${at}`)))
  const { equal, of } = await agreeing(world, instances)
  const winners = won.filter(Boolean).length
  const made = instances.map(({ live }) => {
    const { control } = live
    return `${control.table('operators').size}/${control.table('sessions').size}/${control.table('setup').size}`
  })
  const losses = instances.reduce((sum, { queue }) => sum + queue.status().losses, 0)
  await closeAll(world, instances)
  const isRight = winners === 1 && equal === of && made.every((counts) => counts === '1/1/1')
  return {
    flaw: isRight ? null : `round ${number}: ${winners} won, ${equal} of ${of} agree, ${made.join(' ')}`,
    losses,
  }
}

/** Races so many times, each in a world of its own. */
export const raceSetUps = async (rounds: number, open: () => World | Promise<World>): Promise<Figure> => {
  const flaws: string[] = []
  let losses = 0
  for (let number = 0; number < rounds; number++) {
    const result = await race(number, await open())
    losses += result.losses
    if (result.flaw !== null) flaws.push(result.flaw)
  }
  const first = flaws.length === 0 ? '' : `; ${flaws[0]}`
  return {
    row: 'set-up',
    what: 'two or three set-ups at once over three instances',
    figure: `one winner in ${rounds - flaws.length}, ${losses} appends lost the race${first}`,
    n: rounds,
    good: flaws.length === 0 && losses > 0,
  }
}

if (import.meta.main) {
  const kafka = await startKafka({ brokers: 1 })
  const figure = await raceSetUps(numberArgument('rounds', 1_000), () => kafkaWorld({ bootstrap: kafka.bootstrap }))
  await kafka.stop()
  conclude([figure])
}
