// The configuration as a `bootstrap:` section, for `gateway export`. It never holds a secret: keys are names,
// credentials are a comment, operators and sessions are left out.
import type { Bootstrap } from '../../domain/bootstrap.ts'
import type { ControlReader, Rows } from '../../domain/control.ts'
import { canonicalJson } from '../../domain/kernel/tables.ts'
import { isInForce } from '../../domain/steering/override-row.ts'
import { keyNames, keyNotes } from './keys.ts'
import {
  budgetEntry,
  cacheRuleEntry,
  correctionEntry,
  type Exported,
  keyEntry,
  modelEntry,
  policyEntry,
  providerEntry,
  tenantEntry,
  toolEntry,
  toolPolicyEntry,
} from './rows.ts'
import { endpointEntry, overrideEntry } from './steering.ts'

interface Section {
  readonly name: keyof Bootstrap
  /** What a reader of the file has to know, a line each. */
  readonly notes: readonly string[]
  /** In an order that depends on their content alone. */
  readonly entries: readonly object[]
}

type SectionTable = keyof Bootstrap & keyof Rows

/** The tables of the control state that are no section, and why. A table that is neither does not compile. */
export const NOT_EXPORTED: Readonly<Record<Exclude<keyof Rows, SectionTable>, string>> = {
  chain: 'the identity of the installation: its name, its partitions, the versions of events that its instances know',
  setup: 'whether the console of this installation was set up; another one has its own latch',
  operators: 'people: their names and password hashes are sealed under data keys of this installation',
  sessions: 'logins of people, over within hours',
  tests: 'findings about providers as they were, not configuration; another installation tests for itself',
  retirements: 'instances of this installation that were given up; another one has other instances',
  causes: 'idempotency keys of the last day, with what was answered',
  retired_seeded_texts: 'digests of texts of keys that work no more here; another installation never knew them',
  removed_seeded_rows: 'names of what was deleted, not configuration',
  removed_rows: 'names of what was deleted, not configuration',
  retired_texts: 'the same of keys that the settings have nothing to do with',
}

/** How a table becomes a section. */
const sectionsFrom =
  (state: ControlReader) =>
  <Name extends SectionTable>(
    name: Name,
    order: (row: Rows[Name]) => readonly (string | null)[],
    exported: (row: Rows[Name]) => Exported<object>,
    wanted: (row: Rows[Name]) => boolean = () => true,
  ): Section => {
    const notes: string[] = []
    const found: { readonly rank: string; readonly entry: object }[] = []
    for (const [, row] of state.table(name).rows()) {
      if (!wanted(row)) continue
      const { entry, note } = exported(row)
      if (note !== undefined) notes.push(note)
      if (entry === null) continue
      found.push({ rank: [...order(row).map((part) => part ?? ''), canonicalJson(entry)].join('\0'), entry })
    }
    found.sort((a, b) => (a.rank < b.rank ? -1 : a.rank > b.rank ? 1 : 0))
    return { name, notes: notes.sort(), entries: found.map(({ entry }) => entry) }
  }

/**
 * Every section. `atMs` (Unix milliseconds): what has expired by then is left out. A state that is seeded from the
 * entries into an empty chain gives the same export, except for the ids of keys whose names are ambiguous here. Seeding
 * the entries into this installation changes nothing.
 */
export const exportedSections = (state: ControlReader, atMs: number): readonly Section[] => {
  const section = sectionsFrom(state)
  const owner = (tenantId: string | null) =>
    tenantId === null ? '' : (state.table('tenants').get(tenantId)?.slug ?? '')
  const plain =
    <Row>(entryOf: (state: ControlReader, row: Row) => object) =>
    (row: Row): Exported<object> => ({ entry: entryOf(state, row) })
  const named = (row: { readonly tenant_id: string | null; readonly name: string }) => [
    owner(row.tenant_id),
    row.name.toLowerCase(),
  ]
  const names = keyNames(state)
  const keys = section(
    'keys',
    ({ id, tenant_id }) => [owner(tenant_id), names.get(id)!.name.toLowerCase()],
    (row) => keyEntry(state, names, row),
    ({ id }) => names.has(id),
  )
  return [
    section(
      'tenants',
      ({ slug }) => [slug],
      (row) => ({ entry: tenantEntry(row) }),
    ),
    section('policies', named, (row) => policyEntry(state, row)),
    { ...keys, notes: [...keyNotes(keys.entries), ...keys.notes] },
    section('providers', ({ name }) => [name.toLowerCase()], providerEntry),
    section(
      'models',
      ({ provider_id, name }) => [state.table('providers').get(provider_id)!.name.toLowerCase(), name.toLowerCase()],
      plain(modelEntry),
    ),
    section(
      'endpoints',
      ({ tenant_id, slug }) => [owner(tenant_id), slug],
      (row) => endpointEntry(state, row),
    ),
    section(
      'overrides',
      ({ tenant_id, kind }) => [owner(tenant_id), kind],
      (row) => overrideEntry(state, names, row),
      (row) => isInForce(row, atMs),
    ),
    section(
      'budgets',
      ({ tenant_id, window }) => [owner(tenant_id), window],
      (row) => budgetEntry(state, names, row),
    ),
    section('cache_rules', named, (row) => cacheRuleEntry(state, names, row)),
    section('tools', named, plain(toolEntry)),
    section('tool_policies', named, plain(toolPolicyEntry)),
    section(
      'price_corrections',
      ({ number }) => [String(number).padStart(16, '0')], // the later one of two holds
      (row) => correctionEntry(state, row),
    ),
  ]
}

/** Notes show names and texts as JSON already; this only keeps a comment from ending early. */
const comment = (text: string): string => `# ${text.replaceAll(/[\r\n\u0085\u2028\u2029]+/g, ' ')}`

/** The file. `head`: the lines of its heading. */
export const exportedText = (state: ControlReader, atMs: number, head: readonly string[]): string => {
  const parts = [...head.map(comment), 'bootstrap:']
  for (const { name, notes, entries } of exportedSections(state, atMs)) {
    parts.push(...notes.map((note) => `  ${comment(note)}`))
    if (entries.length === 0) parts.push(`  ${name}: []`)
    else for (const line of yamlOf({ [name]: entries }).split('\n')) parts.push(`  ${line}`.trimEnd())
  }
  return `${parts.join('\n')}\n`
}

/**
 * Block style, one member a line. Strings with line ends are escaped, so every line may be indented. By way of JSON: a
 * zero that is a float would be written as `+0`.
 */
const yamlOf = (value: object): string => Bun.YAML.stringify(JSON.parse(JSON.stringify(value)), null, 2).trimEnd()
