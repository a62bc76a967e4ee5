import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { KIND_TABLE } from '../../../src/composition/settings.ts'
import { Bootstrap, checkBootstrap } from '../../../src/domain/bootstrap.ts'
import { ControlState } from '../../../src/domain/control.ts'
import { canonicalJson } from '../../../src/domain/kernel/tables.ts'
import { CAPABILITIES } from '../../../src/domain/registry/model.ts'
import { correctionsOf } from '../../../src/domain/registry/price-correction.ts'
import { FEATURES } from '../../../src/domain/steering/override-target.ts'
import { STRATEGIES } from '../../../src/domain/steering/policy.ts'
import { sha256Hex } from '../../../src/lib/crypto/digest.ts'
import { nameError } from '../../../src/lib/text/storable-text.ts'
import type { SeedReport } from '../../../src/upkeep/bootstrap/step.ts'
import { valueProblem } from '../../../src/upkeep/bootstrap/validate.ts'
import { exportedSections, exportedText, NOT_EXPORTED } from '../../../src/upkeep/export/bootstrap.ts'
import { type FoldingCommit, foldingCommit } from '../../http/admin/world/folding-commit.ts'
import { NOW_MS, seedInto } from '../bootstrap/seeding.ts'

/** The file as another installation reads it. */
const parsed = (text: string): Bootstrap => {
  const checked = checkBootstrap((Bun.YAML.parse(text) as { bootstrap: unknown }).bootstrap)
  if (!checked.ok) throw new Error(checked.error)
  expect(valueProblem(checked.value, KIND_TABLE)).toBeNull()
  return checked.value
}

const exported = ({ state }: FoldingCommit): string => exportedText(state, NOW_MS, ['a head'])
const withoutComments = (text: string): string =>
  text
    .split('\n')
    .filter((line) => !/^ *#/.test(line))
    .join('\n')

/** Exports, seeds the file into an empty chain, exports that, and answers the first text. */
const roundTrip = async (log: FoldingCommit): Promise<{ text: string; other: FoldingCommit; report: SeedReport }> => {
  const text = exported(log)
  const other = foldingCommit(() => NOW_MS + 1)
  const report = await seedInto(other, parsed(text))
  expect(withoutComments(exported(other))).toBe(withoutComments(text))
  return { text, other, report }
}

const CORRECTION = {
  ...{ provider: 'local', model: 'm', from: '2026-10-01', to: '2026-11-01' },
  ...{ input_cost_per_million: 0.1, output_cost_per_million: 0.6 },
}
const settings: Bootstrap = {
  tenants: [{ slug: 'acme', name: 'Acme: "the" #1', plan: 'pro', rate_limits: { rpm: 5 } }],
  policies: [
    { name: 'cheap', strategy: 'lowest_cost', fallback: { models: ['fast'] } },
    { name: 'cheap', tenant: 'acme', max_cost_usd: 0.1 },
  ],
  keys: [
    { name: 'root', scopes: ['*'] },
    { name: 'app', tenant: 'acme', scopes: ['inference'], routing_policy: 'cheap', routing_policy_owner: 'global' },
    { name: 'app', scopes: ['inference'], expires_at: '2027-01-01T00:00:00Z' },
  ],
  providers: [
    { name: 'local', kind: 'vllm', base_url: 'http://127.0.0.1:1/v1', max_concurrency: 3 },
    { name: 'off', kind: 'openai', api_key_env: 'OPENAI_API_KEY', enabled: false },
  ],
  models: [
    { provider: 'local', name: 'm', aliases: ['fast'], input_cost_per_million: 1e-7, capabilities: ['chat', 'vision'] },
    { provider: 'off', name: 'm', enabled: false, context_window: null },
  ],
  endpoints: [
    { slug: 'chat', overrides: { forced_model: 'm', preferred_providers: ['local'] }, aliases: ['chat-alias'] },
    { slug: 'chat', tenant: 'acme', enabled: false, description: 'two\nlines' },
  ],
  overrides: [
    { kind: 'kill', target: 'provider:off', reason: 'it is slow' },
    { kind: 'block', target: 'key:acme/app' },
    {
      kind: 'cap',
      target: 'key:app',
      tenant: 'acme',
      value: { max_cost_usd: 0.25 },
      expires_at: '2027-01-01T00:00:00Z',
    },
    { kind: 'freeze' },
  ],
  budgets: [
    { limit_usd: 50, alert_thresholds: [0.5] },
    { tenant: 'acme', scope: { type: 'key', id: 'app' }, window: 'day', limit_tokens: 1_000 },
    { tenant: 'acme', scope: { type: 'provider', id: 'local' }, limit_usd: 0.000000001 },
    { tenant: 'acme', scope: { type: 'endpoint', id: 'chat' }, hard_cap_usd: 1, enforcement: 'soft' },
  ],
  cache_rules: [{ name: 'all', ttl_seconds: 60, scopes: ['key:acme/app', 'tenant:acme', 'endpoint:chat'] }],
  tools: [
    { name: 'weather', parameters: { type: 'object', properties: { yes: { type: 'string', enum: ['null', '1'] } } } },
  ],
  tool_policies: [{ name: 'runs', tenant: 'acme', mode: 'automatic', max_steps: 9 }],
  // The first one again at the end: it holds over the second.
  price_corrections: [
    { ...CORRECTION, reason: 'contract' },
    { ...CORRECTION, from: '2026-10-05', to: '2026-10-06T00:01:00Z', cached_input_cost_per_million: 0.05 },
    { ...CORRECTION, provider: 'off', output_cost_per_million: 0 },
    { ...CORRECTION, to: '2026-11-01T00:00:00.000+00:00', reason: 'contract' },
  ],
}
const TABLES = Object.keys(settings) as Exclude<keyof typeof settings, 'recreate'>[]

const UNLIKE: ReadonlySet<string> = new Set(['created_at', 'updated_at', 'revision', 'digest', 'seeded_digest'])

/**
 * The rows of each exported table, without what differs between installations: ids become names, and secrets of keys
 * are left out. Null and absent are equal.
 */
const likeness = ({ state }: FoldingCommit): readonly unknown[] => {
  const names = new Map<string, string>()
  for (const name of ['tenants', 'keys', 'providers', 'models', 'policies'] as const)
    for (const [id, row] of state.table(name).rows()) {
      const of = row as { readonly tenant_id?: string; readonly provider_id?: string }
      names.set(id, [name, names.get(of.tenant_id ?? of.provider_id ?? ''), 'slug' in row ? row.slug : row.name].join())
    }
  const like = (value: unknown): unknown => {
    if (typeof value === 'string') return value.replaceAll(/\b[a-z]+_[0-9a-f-]{36}\b/g, (id) => names.get(id) ?? 'id')
    if (Array.isArray(value)) return value.map(like)
    if (value === null || typeof value !== 'object') return value
    const members = Object.entries(value).filter(([name, member]) => member !== null && !UNLIKE.has(name))
    return Object.fromEntries(members.map(([name, member]) => [name, like(member)]))
  }
  return TABLES.map((name) => [name, [...state.table(name).rows()].map(([, row]) => canonicalJson(like(row))).sort()])
}

describe('export', () => {
  test('of everything there can be, seeded into an empty chain, gives the same file and the same rows', async () => {
    const log = foldingCommit(() => NOW_MS)
    expect((await seedInto(log, settings)).notes).toEqual([])
    const { other, report } = await roundTrip(log)
    expect(report.notes).toEqual([])
    expect(report.minted.map(({ name }) => name).sort()).toEqual(['app', 'app', 'root'])
    expect(likeness(other)).toEqual(likeness(log))
    expect(correctionsOf(other.state).map(({ from, reason }) => [from.slice(0, 10), reason])).toEqual([
      ['2026-10-01', 'contract'],
      ['2026-10-05', null],
      ['2026-10-01', null],
      ['2026-10-01', 'contract'],
    ])
  })

  test('has a section for every table of the state, but for those that say why not; settings have the same sections', () => {
    const sections = exportedSections(new ControlState(), NOW_MS).map(({ name }) => name)
    const sayOnly = ['reversals', 'unchanged_writes'] // of events that change no row: there is nothing in them
    const tables = [...new ControlState().tables()].map(({ name }) => name)
    expect([...sections, ...Object.keys(NOT_EXPORTED), ...sayOnly].sort()).toEqual(tables.sort())
    // What was deleted here is not there to be made anew.
    expect(Object.keys(Bootstrap.properties).sort()).toEqual([...sections, 'recreate'].toSorted())
    expect(Object.keys(settings).sort()).toEqual(sections.toSorted())
  })

  test('of the first start of another installation seeds nothing beside it', async () => {
    const log = foldingCommit(() => NOW_MS)
    await seedInto(log, {})
    const { other } = await roundTrip(log)
    expect(other.state.table('keys').size).toBe(2)
    expect((await seedInto(other, parsed(exported(log)))).minted).toEqual([])
  })

  test('has no secret: a credential is a comment, ids are names, what is gone is left out', async () => {
    const log = foldingCommit(() => NOW_MS)
    await seedInto(log, settings)
    const idOf = (name: 'providers' | 'models' | 'keys', text: string) =>
      [...log.state.table(name).rows()].find(([, row]) => row.name === text)![0]
    const [local, model, key] = [idOf('providers', 'local'), idOf('models', 'm'), idOf('keys', 'app')]
    const [policy] = log.state.table('policies').rows()
    const digest = sha256Hex('a text')
    log.apply([
      {
        type: 'credential.sealed',
        data: { provider_id: local, key_id: 'dek_1', sealed: 'c2VhbGVk', name: 'mine', hint: 'wxyz', replaces: false },
      },
      { type: 'policy.changed', data: { id: policy![0], models: [model], providers: { only: [local] } } },
      { type: 'api_key.rotated', data: { id: idOf('keys', 'root'), digest } },
      { type: 'api_key.revoked', data: { id: key } },
    ])
    const { text } = await roundTrip(log)
    for (const hidden of ['c2VhbGVk', 'wxyz', 'dek_1', digest]) expect(text).not.toContain(hidden)
    for (const id of [local, model, key]) expect(withoutComments(text)).not.toContain(id)
    expect(text).toContain(`# the budget of acme for key "${key}" is left out`)
    expect(text).toContain('# the credential of the provider "local" is not here: it must be given again')
    expect(parsed(text).policies![0]).toMatchObject({ models: ['provider:local/m'], providers: { only: ['local'] } })
  })

  test('leaves out overrides that were taken back or have expired', async () => {
    const log = foldingCommit(() => NOW_MS)
    await seedInto(log, settings)
    const at = Date.parse('2027-01-01T00:00:00Z')
    expect(parsed(exportedText(log.state, at - 1, [])).overrides).toHaveLength(4)
    expect(parsed(exportedText(log.state, at, [])).overrides).toHaveLength(3)
    const [, freeze] = [...log.state.table('overrides').rows()].find(([, { kind }]) => kind === 'freeze')!
    const { kind, target, tenant_id } = freeze
    const data = { id: 'ovr_x', kind, target, tenant_id, value: null, enabled: false, reason: null, expires_at: null }
    log.apply([{ type: 'override.written', data }])
    expect(parsed(exported(log)).overrides).toHaveLength(3)
    await seedInto(log, settings)
    expect(parsed(exported(log)).overrides).toHaveLength(3)
  })
})

const words = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 12 })
const awkward = fc.constantFrom(
  'null',
  'yes',
  '~',
  '0x1f',
  '1e3',
  '- a',
  'a: b',
  '# c',
  ' d ',
  '2026-01-01',
  '"q"',
  "'",
  '|',
  '\\n',
)
const text = fc.oneof(words, awkward)
const maybe = <Value>(value: fc.Arbitrary<Value>) => fc.option(value, { nil: undefined, freq: 2 })
const usd = fc.integer({ min: 1, max: 1_000_000_000_000_000 }).map((nanoUsd) => nanoUsd / 1e9)
const limits = fc.record(
  { rpm: fc.integer({ min: 1, max: 99 }), tpm: fc.integer({ min: 1, max: 99 }) },
  { requiredKeys: [] },
)
const without = <Shape extends object>(shape: Shape): Shape =>
  Object.fromEntries(Object.entries(shape).filter(([, value]) => value !== undefined)) as Shape
const listOf = <Entry extends object>(entry: fc.Arbitrary<Entry>, key: (entry: Entry) => string) =>
  fc.uniqueArray(entry.map(without), { maxLength: 4, selector: key })
const slug = fc.constantFrom('acme', 'b-2', 'default')
const owner = maybe(fc.constantFrom('acme', 'b-2'))
/** A text that a name may be. */
const label = text.filter((one) => nameError(one) === null)
const name = fc.constantFrom('null', '1', 'Yes', 'a b', 'x:y', '#z')

const configuration = fc.record({
  policies: listOf(
    fc.record({
      name,
      tenant: owner,
      strategy: maybe(fc.constantFrom(...STRATEGIES)),
      max_cost_usd: maybe(usd.filter((value) => value <= 1_000_000)),
      regions: maybe(fc.array(label, { maxLength: 2 })),
      rate_limits: maybe(limits),
      enabled: maybe(fc.boolean()),
    }),
    (entry) => `${entry.tenant}/${entry.name.toLowerCase()}`,
  ),
  keys: listOf(
    fc.record({
      name: label,
      tenant: maybe(slug),
      scopes: fc.constant('*' as const).map((scope) => [scope]),
      rate_limits: maybe(limits),
    }),
    (entry) => `${entry.tenant ?? 'default'}/${entry.name}`,
  ),
  models: listOf(
    fc.record({
      provider: fc.constant('p'),
      name: name,
      upstream_model: maybe(name),
      priority: maybe(fc.integer({ min: -9, max: 9 })),
      input_cost_per_million: maybe(fc.double({ min: 0, max: 1_000_000, noNaN: true })),
      capabilities: maybe(fc.subarray([...CAPABILITIES])),
      enabled: maybe(fc.boolean()),
    }),
    (entry) => entry.name.toLowerCase(),
  ),
  endpoints: listOf(
    fc.record({ slug: fc.constantFrom('a', '1', 'null'), tenant: owner, name: maybe(label), description: maybe(text) }),
    (entry) => `${entry.tenant}/${entry.slug}`,
  ),
  overrides: listOf(
    fc.record({
      kind: fc.constant('disable' as const),
      tenant: owner,
      value: fc.record({ features: fc.subarray([...FEATURES], { minLength: 1 }) }),
      reason: maybe(text),
    }),
    (entry) => `${entry.tenant}`,
  ),
  budgets: listOf(
    fc.record({ tenant: maybe(slug), window: fc.constantFrom('day', '12h', 'lifetime'), limit_usd: usd }),
    (entry) => `${entry.tenant ?? 'default'}/${entry.window}`,
  ),
  tools: listOf(
    fc.record({ name: fc.constantFrom('a', '1', 'null'), tenant: owner, description: maybe(text) }),
    (entry) => `${entry.tenant}/${entry.name}`,
  ),
})

test('whatever the configuration is, its file gives the same file elsewhere', async () => {
  await fc.assert(
    fc.asyncProperty(configuration, async (sections) => {
      const log = foldingCommit(() => NOW_MS)
      await seedInto(log, {
        ...sections,
        tenants: [
          { slug: 'acme', name: '~' },
          { slug: 'b-2', name: '2' },
        ],
        providers: [{ name: 'p', kind: 'openai' }],
      })
      expect(log.state.table('policies').size).toBe(sections.policies.length)
      const { text, other } = await roundTrip(log)
      const decided = other.events.length
      await seedInto(other, parsed(text))
      expect(other.events.length).toBe(decided)
    }),
    { numRuns: 60 },
  )
}, 60_000)
