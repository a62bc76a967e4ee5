// Compares an explanation with what was decided: the records of the request log, and the debug block that the client
// received.
import type { RequestAdmitted, RequestSettled } from '../../../src/domain/events/request.ts'
import type { Sent } from './requests.ts'

type Body = Record<string, unknown>
interface Shown {
  readonly provider_id: string
  readonly model_id: string
  readonly rejected_reason: string | null
  readonly score: number | null
  readonly projected_cost_usd: number | null
}

/** The details of a request as the read model keeps them. */
export interface Stored {
  readonly admitted: Pick<RequestAdmitted, 'candidates' | 'decision' | 'model_id'> | null
  readonly settled: Pick<RequestSettled, 'candidates' | 'decision' | 'strategy' | 'revision' | 'frame' | 'seed'>
}

export const wasPlanned = ({ admitted, settled }: Stored): boolean => (admitted ?? settled).decision !== undefined

const SAID = ['revision', 'frame', 'seed', 'strategy', 'policy', 'required_capabilities', 'endpoint', 'route_reason']
const CANDIDATE = ['provider', 'model', 'eligible', 'rejected_reason', 'score', 'components', 'projected_cost_usd']

const of = (names: readonly string[], body: Body): Body => Object.fromEntries(names.map((name) => [name, body[name]]))

/** In what an explanation is not what was decided; [] when it is equal in everything. */
export const unequal = (explained: Body, stored: Stored, { said }: Sent): string[] => {
  const { candidates, decision } = stored.admitted ?? stored.settled
  const shown = explained.candidates as readonly Shown[]
  const order = explained.order as readonly number[]
  const ordered = decision?.order ?? [...order].sort((a, b) => a - b)
  // A request that allows only the primary is refused when the primary is unhealthy: no provider is called, though
  // others could be.
  const first = explained.refused === null ? order.find((place) => shown[place]!.rejected_reason === null) : undefined
  const pairs: [name: string, now: unknown, then: unknown][] = [
    ['computed', explained.computed, true],
    ['matches', explained.matches, true],
    ['candidates', shown.map((each) => [each.provider_id, each.model_id, each.rejected_reason ?? '']), candidates],
    [
      'projected',
      shown.map(({ projected_cost_usd: usd }) => (usd === null ? null : Math.round(usd * 1e9))),
      decision?.projected,
    ],
    ['order', order, ordered],
    ['first', first === undefined ? null : shown[first]!.model_id, stored.admitted?.model_id ?? null],
    ...(['strategy', 'revision', 'frame', 'seed'] as const).map((name): [string, unknown, unknown] => [
      name,
      explained[name],
      stored.settled[name],
    ]),
  ]
  if (decision?.scores !== undefined) pairs.push(['scores', shown.map(({ score }) => score), decision.scores])
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
