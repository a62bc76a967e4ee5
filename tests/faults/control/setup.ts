// Two set-ups raced on three instances, again and again: each chain is begun anew, all three instances are asked at once (two of them at least), one wins.
// `bun tests/faults/control/setup.ts [rounds] [memory|kafka]`; `kafka` starts a broker of its own. Prints what it saw, exits 1 when a round went wrong.
import { decisionMacKey } from '../../../src/domain/decision.ts'
import { decideOperator } from '../../../src/domain/operator.ts'
import { Rejection } from '../../../src/domain/rejection.ts'
import { newId } from '../../../src/lib/ids.ts'
import { kafkaLog } from '../../../src/log/kafka.ts'
import { memoryLog } from '../../../src/log/memory.ts'
import type { EventLog } from '../../../src/log/port.ts'
import { openDataKeys } from '../../../src/state/data-keys.ts'
import { CONTROL } from '../../../src/state/fold.ts'
import { createSessions } from '../../../src/upkeep/sessions.ts'
import { begin, nowMs, openInstance, quiet } from '../../state/support.ts'

export interface Race {
  readonly rounds: number
  /** Rounds with exactly one winner, whom all three instances know. */
  readonly right: number
  /** Rounds in which each instance won, by its place. */
  readonly wonBy: readonly number[]
  /** Appends that came too late: where there are none, there was no race. */
  readonly losses: number
  readonly flaws: readonly string[]
}

const MASTER_KEY = new Uint8Array(32).fill(7)

/** One round on a control topic that holds nothing yet. */
const round = async (
  log: EventLog,
  number: number,
): Promise<{ winners: number[]; losses: number; flaw: string | null }> => {
  await begin(log, `chain_${number}`)
  const instances = await Promise.all(['a', 'b', 'c'].map((name) => openInstance(name, log)))
  await Promise.all(instances.map(({ live }) => live.ready()))
  const setUp = async ({ live, queue }: (typeof instances)[number], name: string): Promise<boolean> => {
    const id = newId('op')
    const sessions = createSessions({ live, commit: queue.commit, newId, nowMs, diagnostics: quiet })
    const secrets = { name_digests: [name] as const, key_id: newId('dek'), sealed: 'sealed' }
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
  // Two of the three in turn; every fourth time all three. Names differ: it is the latch that decides, not the name.
  const racing = [0, 1, 2].filter((at) => number % 4 === 3 || at !== number % 3)
  const won = await Promise.all(racing.map((at) => setUp(instances[at]!, `name ${at}`)))
  const winners = racing.filter((_, at) => won[at])
  const end = await log.end(CONTROL, 0)
  await Promise.all(instances.map(({ live }) => live.changed.until(() => live.next >= end, 5_000)))
  const states = instances.map(({ live }) => ({
    operators: [...live.control.table('operators').rows()].map(([id]) => id),
    sessions: live.control.table('sessions').size,
    digest: live.status().digest,
  }))
  const losses = instances.reduce((sum, { queue }) => sum + queue.status().losses, 0)
  await Promise.all(instances.map((instance) => instance.close()))
  const agree = states.every(({ digest }) => digest === states[0]!.digest)
  const one = states.every(({ operators, sessions }) => operators.length === 1 && sessions === 1)
  const flaw = winners.length === 1 && agree && one ? null : JSON.stringify({ number, winners, states })
  return { winners, losses, flaw }
}

/** Races that many times; `open` gives each round a log of its own. */
export const raceSetUps = async (rounds: number, open: (number: number) => Promise<EventLog>): Promise<Race> => {
  const wonBy = [0, 0, 0]
  const flaws: string[] = []
  let losses = 0
  for (let number = 0; number < rounds; number++) {
    const log = await open(number)
    const result = await round(log, number)
    await log.close()
    losses += result.losses
    if (result.flaw !== null) flaws.push(result.flaw)
    for (const at of result.winners) wonBy[at]! += 1
  }
  return { rounds, right: rounds - flaws.length, wonBy, losses, flaws }
}
