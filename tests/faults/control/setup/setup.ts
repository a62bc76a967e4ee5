// Set-up: two or three instances of three get the request at once, each time on a chain that has just begun. One of
// them makes the first operator, and all three know it.
// `bun tests/faults/control/setup/setup.ts [--rounds 1000] [--doors 1000] [--gateways 30]`: over three processes on a
// real broker, without and with HTTP, and with whole gateways.
import { foldAgain } from '../../../../src/state/fold.ts'
import { macKey } from '../../../state/support.ts'
import { conclude, type Figure, numberArgument } from '../figures.ts'
import { agreeing, closeAll, openInstances, type World } from '../world.ts'
import { type Standing, setUp, standingOf } from './setup-instance.ts'
import { raceDoors, raceGateways, raceProcesses } from './setup-processes.ts'

export const INSTANCES = 3

/** Pairs in turn, and every fourth time all. */
export const isRacing = (round: number, instance: number): boolean => round % 4 === 3 || instance !== round % INSTANCES

/** What a round came to. */
export interface RoundResult {
  readonly winners: number
  /** By HTTP: one client got in time the answer that the outcome is unknown. */
  readonly unknown?: boolean
  /** By HTTP: what was not answered as it should be. */
  readonly answers?: string
  readonly standings: readonly Standing[]
  /** A fold of the whole log by itself. */
  readonly replay: Pick<Standing, 'tip' | 'digest'>
}

const flawOf = ({ winners, answers, standings, replay }: RoundResult): string | null => {
  if (answers !== undefined) return answers
  const same = standings.filter(({ tip, digest }) => tip === replay.tip && digest === replay.digest).length
  const isRight = winners === 1 && same === INSTANCES && standings.every(({ rows }) => rows === '1/1/1')
  return isRight
    ? null
    : `${winners} won, ${same} of ${INSTANCES} agree, ${standings.map(({ rows }) => rows).join(' ')}`
}

export const figureOf = (what: string, results: readonly RoundResult[]): Figure => {
  const flaws = results.map(flawOf).filter((flaw) => flaw !== null)
  const losses = results.flatMap(({ standings }) => standings).reduce((sum, standing) => sum + standing.losses, 0)
  const unknown = results.filter((result) => result.unknown).length
  const told = unknown === 0 ? '' : `, told in time that it is not known in ${unknown}`
  const first = flaws.length === 0 ? '' : `; ${flaws[0]}`
  return {
    row: 'set-up',
    what,
    figure:
      `one winner and three equal states in ${results.length - flaws.length}, ` +
      `${losses} appends lost the race${told}${first}`,
    n: results.length,
    good: flaws.length === 0 && losses > 0,
  }
}

const raceIn = async (round: number, world: World): Promise<RoundResult> => {
  const instances = await openInstances(world, INSTANCES)
  const racing = instances.filter((_, at) => isRacing(round, at))
  const won = await Promise.all(racing.map((instance, at) => setUp(instance, `name ${at}`)))
  await agreeing(world, instances) // all have folded everything
  const log = world.view()
  const { state, tip } = await foldAgain(log, macKey, new AbortController().signal)
  const standings = instances.map(standingOf)
  await log.close()
  await closeAll(world, instances)
  return { winners: won.filter(Boolean).length, standings, replay: { tip, digest: state.digest() } }
}

/** Races so many times in this process, each in a world of its own. */
export const raceSetUps = async (rounds: number, open: () => World | Promise<World>): Promise<Figure> => {
  const results: RoundResult[] = []
  for (let round = 0; round < rounds; round++) results.push(await raceIn(round, await open()))
  return figureOf('two or three set-ups at once over three instances of one process', results)
}

if (import.meta.main) {
  const figures = []
  const rounds = numberArgument('rounds', 1_000)
  if (rounds > 0) figures.push(await raceProcesses(rounds))
  const doors = numberArgument('doors', 1_000)
  if (doors > 0) figures.push(await raceDoors(doors))
  const gateways = numberArgument('gateways', 30)
  conclude(gateways === 0 ? figures : [...figures, await raceGateways(gateways)])
}
