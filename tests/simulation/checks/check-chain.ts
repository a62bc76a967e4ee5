// Control: acknowledged decisions are in the chain, once. Every instance counts the same decisions in the same order,
// and has the state of a fold from scratch.
import { createHash } from 'node:crypto'
import { GENESIS } from '../../../src/domain/kernel/decision.ts'
import { ChainFold, CONTROL } from '../../../src/state/fold.ts'
import { macKey } from '../../state/support.ts'
import type { Run } from '../run.ts'

interface Counted {
  readonly id: string
  readonly mark: string
  readonly cause: string | null
}

/** The counting rule once more, written as plainly as it can be. */
const countedIn = (values: readonly (Uint8Array | null)[]): Counted[] => {
  const counted: Counted[] = []
  let tip = GENESIS
  for (const value of values) {
    const decision = JSON.parse(Buffer.from(value!).toString())
    if (decision.parent !== tip) continue
    tip = createHash('sha256').update(value!).digest('hex')
    counted.push({ id: tip, mark: decision.actor.id, cause: decision.cause?.id ?? null })
  }
  return counted
}

export const checkChain = (run: Run): void => {
  const records = run.broker.log.records(CONTROL)
  const counted = countedIn(records.map(({ value }) => value))
  const fold = new ChainFold(macKey)
  for (const record of records) fold.take(record)
  if (fold.tip !== counted.at(-1)!.id) run.violated('the fold from scratch ends at another decision than the rule does')
  checkInstances(run, counted, fold)
  checkAnswers(run, counted)
}

const checkInstances = (run: Run, counted: readonly Counted[], fold: ChainFold): void => {
  const digest = fold.state.digest()
  for (const { name, histories, final } of run.machines) {
    for (const { after, counted: own } of histories) {
      const differs = own.findIndex((id, i) => counted[after + i]?.id !== id)
      if (differs !== -1)
        run.violated(`a process of ${name} counted something else, or in another order, from place ${differs} on`)
    }
    if (final === null) continue
    if (final.next !== records(run)) run.violated(`${name} folded ${final.next} of ${records(run)} decisions`)
    if (final.tip !== fold.tip) run.violated(`${name} has another tip than the fold from scratch`)
    if (final.digest !== digest) run.violated(`${name} has another state than the fold from scratch`)
    if (final.degraded !== null) run.violated(`${name} is degraded: ${final.degraded}`)
  }
}

const records = (run: Run): number => run.broker.log.records(CONTROL).length

const checkAnswers = (run: Run, counted: readonly Counted[]): void => {
  const byMark = Map.groupBy(counted, ({ mark }) => mark)
  for (const { mark, outcome, revision, process } of run.operators.commanded) {
    const own = byMark.get(mark) ?? []
    if (own.length > 1) run.violated(`${mark} was decided ${own.length} times`)
    if (outcome === 'changed' && own[0]?.id !== revision)
      run.violated(`${mark} was acknowledged by ${process}, and is not in the chain`)
    const isNot =
      outcome === 'refused' || outcome === 'unavailable' || outcome === 'unchanged' || outcome === 'repeated'
    if (isNot && own.length > 0) run.violated(`${mark} was answered "${outcome}" by ${process}, and is in the chain`)
    if (outcome === 'repeated' && !counted.some(({ id }) => id === revision))
      run.violated(`${mark} was answered with a decision that is not in the chain`)
  }
  const causes = counted.flatMap(({ cause }) => cause ?? [])
  if (new Set(causes).size < causes.length) run.violated('one Idempotency-Key was carried out twice')
}
