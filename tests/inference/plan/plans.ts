// Inputs of plans, for tests: what is not said is what most of them want.

import type { PolicyRow } from '../../../src/domain/steering/policy.ts'
import { type Intent, readIntent } from '../../../src/inference/intent/intent.ts'
import type { PlanInput } from '../../../src/inference/plan/plan.ts'
import { BUILT_IN, effectivePolicy } from '../../../src/inference/plan/policies.ts'
import { type Frame, type Signals, STILL, UNOBSERVED } from '../../../src/state/health/frame.ts'
import {
  type EndpointScope,
  NO_OVERRIDES,
  type OverridesInForce,
  type Steering,
} from '../../../src/state/indexes/steering.ts'
import type { CatalogueEntry } from '../../../src/state/port.ts'
import { catalogueOf, entry, policyRow, TIP } from '../gateway.ts'

/** A request for `small`, with these headers and further fields. */
export const intentOf = (fields: Record<string, unknown> = {}, headers: Record<string, string> = {}): Intent => {
  const body = { model: 'small', messages: [{ role: 'user', content: 'hello there' }], ...fields }
  return readIntent(JSON.stringify(body), body, new Headers(headers))
}

/** The effective policy of one global row. */
export const policyOf = (row: Partial<PolicyRow>) => effectivePolicy([{ source: 'global', row: policyRow(row) }])

export const scopeOf = (fields: Partial<EndpointScope> = {}): EndpointScope => ({
  id: `end_${fields.slug ?? 'app'}`,
  slug: 'app',
  tenantId: null,
  enabled: true,
  forcedModel: null,
  preferredModels: [],
  preferredProviders: [],
  strategy: null,
  maxCostUsd: null,
  latencyTargetMs: null,
  noFallback: false,
  revision: TIP,
  ...fields,
})

/** Overrides in force; one id stands for them where none is given. */
export const overridesOf = (fields: Partial<OverridesInForce>): OverridesInForce => ({
  ...NO_OVERRIDES,
  ids: ['ovr_1'],
  ...fields,
})

/** A frame in which these were seen, by model id. */
export const frameOf = (seen: Readonly<Record<string, Partial<Signals>>>, number = 7): Frame => {
  const signals = new Map(Object.entries(seen).map(([id, fields]) => [id, { ...UNOBSERVED, ...fields }]))
  return { number, atMs: 1_760_000_000_000, signals: (id) => signals.get(id) ?? UNOBSERVED }
}

export const planInput = ({
  entries = [entry()],
  aliases = {},
  ...fields
}: Partial<PlanInput> & {
  entries?: readonly CatalogueEntry[]
  aliases?: Readonly<Record<string, string>>
} = {}): PlanInput => ({
  intent: intentOf(),
  policy: BUILT_IN,
  catalogue: catalogueOf(entries, aliases),
  keyId: 'key_1',
  isScopeAlias: false,
  overrides: NO_OVERRIDES,
  frame: STILL,
  seed: 1,
  turn: 0,
  sticky: 0,
  ...fields,
})

/** Steering by these scopes (and who is whose alias), and overrides that a test may change. */
export const steeringOf = (
  scopes: readonly EndpointScope[] = [],
  aliases: Readonly<Record<string, string>> = {},
): Steering & { inForce: OverridesInForce } => {
  const steering = {
    inForce: NO_OVERRIDES,
    endpoint: (_tenantId: string, slug: string) => scopes.find((scope) => scope.slug === slug.toLowerCase()) ?? null,
    endpointOfAlias: (tenantId: string, name: string) => {
      const slug = aliases[name.toLowerCase()]
      return slug === undefined ? null : steering.endpoint(tenantId, slug)
    },
    aliases: (tenantId: string) =>
      new Map(
        Object.keys(aliases).flatMap((alias) => {
          const scope = steering.endpointOfAlias(tenantId, alias)
          return scope === null ? [] : [[alias, scope] as const]
        }),
      ),
    overrides: () => steering.inForce,
  }
  return steering
}
