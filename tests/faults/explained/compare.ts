// Compares an explanation with what was decided: the records of the request log, and the debug block that the client
// received.
import type { PlanRecord, RequestAdmitted, RequestSettled } from '../../../src/domain/events/request.ts'
import { decisionName } from '../../../src/domain/events/request-reading.ts'
import type { Sent } from './requests.ts'

type Body = Record<string, unknown>
interface Shown {
  readonly model_id: string
  readonly rejected_reason: string | null
}

/** The details of a request as the read model keeps them. */
export interface Stored {
  readonly admitted: Pick<RequestAdmitted, 'plan' | 'model_id'> | null
  readonly settled: Pick<RequestSettled, 'plan'>
}

/** What was recorded of its plan; undefined: it was refused before there was one. */
export const planOf = ({ admitted, settled }: Stored): PlanRecord | undefined => (admitted ?? settled).plan

const SAID = ['revision', 'frame', 'seed', 'strategy', 'policy', 'required_capabilities', 'endpoint', 'route_reason']
const CANDIDATE = ['provider', 'model', 'eligible', 'rejected_reason', 'score', 'components', 'projected_cost_usd']

const of = (names: readonly string[], body: Body): Body => Object.fromEntries(names.map((name) => [name, body[name]]))

/** How many candidates were rejected, by reason. */
const countsOf = (shown: readonly Shown[]): Record<string, number> => {
  const counts: Record<string, number> = {}
  for (const { rejected_reason: reason } of shown) if (reason !== null) counts[reason] = (counts[reason] ?? 0) + 1
  return counts
}

/** In what an explanation is not what was decided; [] when it is equal in everything. */
export const unequal = (explained: Body, stored: Stored, { said }: Sent): string[] => {
  const plan = planOf(stored)!
  const shown = explained.candidates as readonly Shown[]
  const order = explained.order as readonly number[]
  // A request that allows only the primary is refused when the primary is unhealthy: no provider is called, though
  // others could be.
  const first = explained.refused === null ? order.find((place) => shown[place]!.rejected_reason === null) : undefined
  const pairs: [name: string, now: unknown, then: unknown][] = [
    ['computed', explained.computed, true],
    ['matches', explained.matches, true],
    ['rejected', countsOf(shown), plan.rejected ?? {}],
    ['first', first === undefined ? null : shown[first]!.model_id, stored.admitted?.model_id ?? null],
    ['frame', explained.frame, plan.frame ?? 0],
    ['seed', explained.seed, plan.seed],
    ['revision', decisionName(String(explained.revision)), plan.revision],
  ]
  if (said !== null) {
    const saidOf = (body: Body) => (body.candidates as readonly Body[]).map((each) => of(CANDIDATE, each))
    pairs.push(['said candidates', saidOf(explained), saidOf(said)])
    for (const name of SAID) if (said[name] !== undefined) pairs.push([`said ${name}`, explained[name], said[name]])
    const sorted = (ids: unknown) => [...(ids as readonly string[])].sort()
    pairs.push(['said overrides', sorted(explained.overrides_applied), sorted(said.overrides_applied)])
  }
  return pairs.flatMap(([name, now, then]) =>
    Bun.deepEquals(now, then) ? [] : [`${name}: ${JSON.stringify(now)} and not ${JSON.stringify(then)}`],
  )
}
