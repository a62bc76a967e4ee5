// Entries of `bootstrap:` that are refused before the start: duplicates, and entries that would change what a key of
// the environment can access.
import { describe, expect, test } from 'bun:test'
import { type Bootstrap, checkBootstrap } from '../../../src/domain/bootstrap.ts'
import { sha256Hex } from '../../../src/lib/crypto/digest.ts'
import { KINDS, kindOf } from '../../../src/providers/kinds.ts'
import { bootstrapProblem } from '../../../src/upkeep/bootstrap/check.ts'
import { ADMIN, install, rowsOf } from './installation.ts'

const kinds = { resolve: kindOf, names: [...KINDS.keys()] }
const flawOf = (bootstrap: Bootstrap): string | null => {
  expect(checkBootstrap(bootstrap)).toMatchObject({ ok: true })
  return bootstrapProblem(bootstrap, kinds)
}

describe('an entry that stands twice is refused with its path', () => {
  const scopes = ['inference' as const]
  const model = { name: 'm' }
  test.each<[string, Bootstrap, string]>([
    [
      'tenants[1].slug',
      {
        tenants: [
          { slug: 'tt', name: 'A' },
          { slug: 'tt', name: 'B' },
        ],
      },
      'tenants[0].slug',
    ],
    [
      'keys[1].name',
      {
        keys: [
          { name: 'k', scopes },
          { name: 'k', tenant: 'default', scopes },
        ],
      },
      'keys[0].name',
    ],
    [
      'providers[1].name',
      {
        providers: [
          { name: 'p', kind: 'openai' },
          { name: 'P', kind: 'sandbox' },
        ],
      },
      'providers[0].name',
    ],
    [
      'providers[0].models[1].name',
      { providers: [{ name: 'p', kind: 'openai', models: [model, { name: 'M' }] }] },
      'providers[0].models[0].name',
    ],
    [
      'models[0].name',
      { providers: [{ name: 'p', kind: 'openai', models: [model] }], models: [{ provider: 'P', ...model }] },
      'providers[0].models[0].name',
    ],
    ['policies[1].name', { policies: [{ name: 'dup' }, { name: 'DUP' }] }, 'policies[0].name'],
    ['endpoints[1].slug', { endpoints: [{ slug: 's' }, { slug: 's', name: 'other' }] }, 'endpoints[0].slug'],
    [
      'overrides[1]',
      {
        overrides: [
          { kind: 'kill', target: 'provider:P' },
          { kind: 'kill', target: 'p' },
        ],
      },
      'overrides[0]',
    ],
    ['overrides[1]', { overrides: [{ kind: 'freeze' }, { kind: 'freeze', target: '*' }] }, 'overrides[0]'],
    [
      'overrides[1]',
      {
        keys: [{ name: 'app', tenant: 'acme', scopes }],
        overrides: [
          { kind: 'block', target: 'key:app' },
          { kind: 'block', target: 'key:acme/app' },
        ],
      },
      'overrides[0]',
    ],
    [
      'budgets[1]',
      { budgets: [{ limit_usd: 1 }, { tenant: 'default', scope: { type: 'tenant' }, window: 'month', limit_usd: 2 }] },
      'budgets[0]',
    ],
    [
      'budgets[1]',
      {
        budgets: [
          { scope: { type: 'model', id: 'm' }, limit_usd: 1 },
          { scope: { type: 'model', id: 'M' }, hard_cap_usd: 1 },
        ],
      },
      'budgets[0]',
    ],
    [
      'cache_rules[1].name',
      {
        cache_rules: [
          { name: 'r', ttl_seconds: 1 },
          { name: 'R', ttl_seconds: 2 },
        ],
      },
      'cache_rules[0].name',
    ],
    ['tools[1].name', { tools: [{ name: 't' }, { name: 'T' }] }, 'tools[0].name'],
    ['tool_policies[1].name', { tool_policies: [{ name: 't' }, { name: 'T' }] }, 'tool_policies[0].name'],
  ])('%s', (path, bootstrap, first) => {
    expect(flawOf(bootstrap)).toBe(`bootstrap.${path}: it is the same as bootstrap.${first}: take one of them out`)
  })

  test('but not what differs in its owner, its scope or its window', () => {
    const bootstrap: Bootstrap = {
      keys: [
        { name: 'k', scopes },
        { name: 'K', scopes },
        { name: 'k', tenant: 'acme', scopes },
      ],
      policies: [{ name: 'p' }, { name: 'p', tenant: 'acme' }],
      providers: [
        { name: 'p', kind: 'openai', models: [model] },
        { name: 'q', kind: 'openai', models: [model] },
      ],
      endpoints: [{ slug: 's' }, { slug: 's', tenant: 'acme' }],
      overrides: [
        { kind: 'block', target: 'key:k' },
        { kind: 'block', target: 'key:acme/k' },
        { kind: 'block', target: 'key:k', tenant: 'acme' },
        { kind: 'cap', target: 'key:k', value: { max_cost_usd: 1 } },
      ],
      budgets: [
        { limit_usd: 1 },
        { limit_usd: 1, window: 'day' },
        { limit_usd: 1, tenant: 'acme' },
        { limit_usd: 1, scope: { type: 'key', id: 'k' } },
        { limit_usd: 1, scope: { type: 'key', id: 'K' } },
      ],
    }
    expect(flawOf(bootstrap)).toBeNull()
  })
})

describe('a key of the environment', () => {
  const wide = { name: 'bootstrap-inference', scopes: ['*' as const] }

  test('takes no scope and no text from an entry of its name: that is refused', () => {
    expect(flawOf({ keys: [wide] })).toBe(
      'bootstrap.keys[0].scopes: "bootstrap-inference" is the key of GATEWAY_BOOTSTRAP_INFERENCE_KEY and has the scopes [inference]: say these or choose another name',
    )
    expect(flawOf({ keys: [{ name: 'bootstrap-admin', scopes: ['*'], key_env: 'OTHER_KEY' }] })).toStartWith(
      'bootstrap.keys[0].key_env: "bootstrap-admin" is the key of GATEWAY_BOOTSTRAP_ADMIN_KEY',
    )
    expect(flawOf({ keys: [{ ...wide, tenant: 'acme' }] })).toBeNull()
  })

  test('is never widened by settings, and an entry may say what limits it', async () => {
    const at = install()
    const inference = 'an-inference-key-of-my-own-choice'
    await at.seed({ keys: [{ ...wide, rate_limits: { rpm: 3 } }] }, { admin: ADMIN, inference })
    const opened = rowsOf(at, 'keys').filter(({ digest }) => digest === sha256Hex(inference))
    expect(opened).toMatchObject([{ scopes: ['inference'], rate_limits: { rpm: 3 } }])
    expect(rowsOf(at, 'keys')).toHaveLength(2)
  })
})
