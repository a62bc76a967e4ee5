// Random settings over few names, so that entries collide and take names from one another, and random changes by the
// API between two starts.
import fc from 'fast-check'
import { decideApiKey } from '../../../src/domain/access/api-key.ts'
import type { Bootstrap } from '../../../src/domain/bootstrap.ts'
import type { EventRecord } from '../../../src/domain/kernel/decision.ts'
import { Rejection } from '../../../src/domain/kernel/rejection.ts'
import { decideModel } from '../../../src/domain/registry/model.ts'
import { decideEndpoint, NOTHING_OVERRIDDEN } from '../../../src/domain/steering/endpoint.ts'
import { decidePolicy, POLICY_DEFAULTS } from '../../../src/domain/steering/policy.ts'
import { sha256Hex } from '../../../src/lib/crypto/digest.ts'
import { newId } from '../../../src/lib/crypto/ids.ts'
import { type Installation, rowsOf } from './installation.ts'

const WORDS = ['w1', 'w2', 'w3', 'new']
const NAMES = ['m1', 'm2', 'vendor/m3', 'new']
const REFERENCES = ['m1', 'w1', 'nobody', 'provider:one/m1', 'provider:TWO/vendor/m3', 'provider:three/m1']
const SOURCES = ['operator', 'provider', 'catalogue', 'kind', 'detected']
/** Before, within and after the days of a story. */
const ENDS = ['2026-11-01T00:00:00Z', '2026-11-23T00:00:00Z', '2027-01-01T00:00:00Z']

const maybe = <Value>(value: fc.Arbitrary<Value>) => fc.option(value, { nil: undefined })
const price = fc.constantFrom(0, 1, 3)
const tier = { above_prompt_tokens: 9, input_cost_per_million: 5, output_cost_per_million: 5 }
const words = maybe(fc.subarray(WORDS))
const references = fc.subarray(REFERENCES)

const model = fc.record({
  name: fc.constantFrom(...NAMES),
  aliases: words,
  priority: maybe(fc.nat(3)),
  input_cost_per_million: maybe(price),
  cached_input_cost_per_million: maybe(price),
  price_tiers: maybe(fc.constant([{ ...tier, cached_input_cost_per_million: null }])),
  context_window: maybe(fc.constant(100)),
  capabilities: maybe(fc.subarray(['chat', 'vision'] as const)),
  capability_source: maybe(fc.constantFrom(...SOURCES)),
})
const models = fc.uniqueArray(model, { selector: ({ name }) => name, maxLength: 4 })

/**
 * Entries with references are always listed and never refused: such an entry would keep its references, even where
 * their targets exist by then.
 */
const endpoint = (slug: string, tenant?: string) =>
  fc.record({
    slug: fc.constant(slug),
    tenant: fc.constant(tenant),
    aliases: words,
    description: maybe(fc.constantFrom('a', 'b')),
    overrides: fc.record({ preferred_models: references }),
  })

const further = fc.record({
  slug: fc.constant('e3'),
  aliases: words,
  overrides: fc.record({ forced_model: maybe(fc.constantFrom('m1', 'w2')) }),
})

const policy = (name: string) =>
  fc.record({
    name: fc.constant(name),
    models: references,
    fallback: fc.record({ models: maybe(references), context_window_models: maybe(references) }),
  })

const key = (name: string, key_env?: string) =>
  fc.record({
    name: fc.constant(name),
    key_env: fc.constant(key_env),
    scopes: fc.subarray(['inference', 'usage:read'] as const, { minLength: 1 }),
    expires_at: maybe(fc.constantFrom(...ENDS)),
    expires_in_hours: maybe(fc.constant(48)),
    rate_limits: maybe(fc.record({ rpm: fc.integer({ min: 1, max: 2 }) })),
  })

const some = <Value>(...all: fc.Arbitrary<Value>[]) =>
  fc.tuple(...all.map(maybe)).map((each) => each.filter((one) => one !== undefined))

export interface Settings {
  readonly bootstrap: Bootstrap
  readonly env: Record<string, string>
}

/** Without members that say nothing. */
const said = (bootstrap: object): Bootstrap => JSON.parse(JSON.stringify(bootstrap)) as Bootstrap

/** `root` opens everything, so that nothing is minted beside what the file lists. */
export const anySettings: fc.Arbitrary<Settings> = fc
  .record({
    one: models,
    two: models,
    endpoints: fc.tuple(endpoint('e1'), endpoint('e2'), endpoint('e2', 'acme')),
    further: some(further),
    policies: fc.tuple(policy('p1'), policy('p2')),
    keys: some(key('given', 'GIVEN'), key('minted')),
    text: fc.nat(3),
  })
  .map(({ one, two, endpoints, further, policies, keys, text }) => ({
    bootstrap: said({
      tenants: [{ slug: 'acme', name: 'Acme' }],
      providers: [
        { name: 'one', kind: 'openai', models: one },
        { name: 'two', kind: 'openai_compatible', base_url: 'http://two.test/v1', models: two },
      ],
      endpoints: [...endpoints, ...further],
      policies,
      keys: [{ name: 'root', scopes: ['*' as const] }, ...keys],
    }),
    env: { GIVEN: `the-text-number-${text}-of-the-settings` },
  }))

/** A write of the API: what it does, and to which of the rows there are. */
const anyWrite = fc.record({
  what: fc.constantFrom('rotate', 'edit key', 'revoke', 'edit model', 'delete model', 'edit scope', 'write policy'),
  at: fc.nat(7),
  words: fc.subarray(WORDS),
  names: references,
})
export type Write = typeof anyWrite extends fc.Arbitrary<infer Value> ? Value : never
export const anyWrites = fc.array(anyWrite, { maxLength: 4 })

const EVERYTHING = { scopes: ['*'] }

/** What the API decides; policies hold names as earlier builds took them. */
const decided = (at: Installation, { what, at: place, words: aliases, names }: Write): readonly EventRecord[] => {
  const { state } = at.log
  const keys = rowsOf(at, 'keys').filter(({ name, status }) => name !== 'root' && status === 'active')
  const all = rowsOf(at, 'models')
  const [row, one] = [keys[place % Math.max(1, keys.length)], all[place % Math.max(1, all.length)]]
  if (what === 'write policy') {
    const policy = { ...POLICY_DEFAULTS, models: names, fallback: { models: names } }
    const as = { id: newId('pol'), tenant_id: null, name: place < 4 ? 'p1' : 'p3', managed_by: 'api' } as const
    return decidePolicy(state, { do: 'upsert', ...as, ...policy })
  }
  if (what === 'edit scope') {
    const as = { id: newId('end'), slug: 'e1', tenant_id: null, name: 'n', description: null, enabled: true }
    return decideEndpoint(state, { do: 'upsert', ...as, aliases, overrides: NOTHING_OVERRIDDEN })
  }
  if (what.endsWith('model')) {
    if (one === undefined) return []
    if (what === 'delete model') return decideModel(state, { do: 'delete', id: one.id })
    return decideModel(state, { do: 'change', id: one.id, managed_by: 'api', aliases })
  }
  if (row === undefined) return []
  const { id } = row
  if (what === 'revoke') return decideApiKey(state, { do: 'revoke', id })
  const granter = EVERYTHING
  if (what === 'rotate') return decideApiKey(state, { do: 'rotate', id, granter, digest: sha256Hex(newId('key')) })
  return decideApiKey(state, { do: 'change', id, granter, managed_by: 'api', rate_limits: { rpm: 9 } })
}

/** Does it, unless the API would refuse it. */
export const write = (at: Installation, one: Write): void => {
  try {
    at.log.apply([...decided(at, one)])
  } catch (error) {
    if (!(error instanceof Rejection)) throw error
  }
}
