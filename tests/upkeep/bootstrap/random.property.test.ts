// For any settings and any changes by the API between two starts: one start leads to the state of the file, a second
// one changes nothing, and no ended key works again.
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { KIND_TABLE } from '../../../src/composition/settings.ts'
import { type Bootstrap, checkBootstrap } from '../../../src/domain/bootstrap.ts'
import { sha256Hex } from '../../../src/lib/crypto/digest.ts'
import type { SeedReport } from '../../../src/upkeep/bootstrap/step.ts'
import { valueProblem } from '../../../src/upkeep/bootstrap/validate.ts'
import { exportedText } from '../../../src/upkeep/export/bootstrap.ts'
import { foldingCommit } from '../../http/admin/world/folding-commit.ts'
import { anySettings, anyWrites, type Settings, write } from './any-bootstrap.ts'
import { type Installation, install, rowsOf } from './installation.ts'

const DAY_MS = 86_400_000

/** An installation that counts its decisions. */
const counting = (): { readonly at: Installation; taken(): number } => {
  let decisions = 0
  const inner = foldingCommit(() => Date.UTC(2026, 10, 20))
  const at = install({
    ...inner,
    async commit(request) {
      const result = await inner.commit(request)
      if (result.changed) decisions++
      return result
    },
  })
  return { at, taken: () => decisions }
}

/** Digests of the texts that open something. */
const working = (at: Installation): ReadonlySet<string> =>
  new Set(
    rowsOf(at, 'keys')
      .filter(({ status, expires_at }) => status === 'active' && !(Date.parse(expires_at ?? '9999-01-01') <= at.nowMs))
      .map(({ digest }) => digest),
  )

/** Fields of a key that the settings may change: its secret, and the end of the key that had this secret. */
const OF_THE_SETTINGS: ReadonlySet<string> = new Set([
  'digest',
  'seeded_digest',
  'seeded_name',
  'status',
  'revoked_at',
  'updated_at',
  'revision',
])

/** What the API owns, but for the texts of keys, which settings may change. */
const ofTheApi = (at: Installation): readonly string[] =>
  (['keys', 'models', 'policies', 'endpoints'] as const)
    .flatMap((table) => [...at.log.state.table(table).rows()].map(([, row]): { readonly managed_by?: string } => row))
    .filter(({ managed_by = 'api' }) => managed_by === 'api')
    .map((row) => JSON.stringify(Object.entries(row).filter(([name]) => !OF_THE_SETTINGS.has(name))))

/** Every alias of an entry is one of its row's and the other way round, or a note tells of the entry. */
const requireWords = (at: Installation, { providers = [], endpoints = [] }: Bootstrap, notes: readonly string[]) => {
  const same = (what: string, aliases: readonly string[] | undefined, own: readonly string[] | undefined) => {
    if (
      own === undefined ||
      notes.some((note) => note.startsWith(`${what}: `) && !/stays|models: no model has/.test(note))
    )
      return
    expect([what, [...own].sort()]).toEqual([what, [...(aliases ?? [])].sort()])
  }
  for (const { name: provider, models = [] } of providers)
    for (const { name, aliases } of models) {
      const [id] = at.log.state.table('providers').find('name', provider)
      const row = rowsOf(at, 'models').find((one) => one.name === name && one.provider_id === id)
      if (row?.managed_by === 'api') continue
      same(
        `bootstrap.models "${name}" of "${provider}"`,
        aliases?.filter((word) => word !== name),
        row?.aliases ?? [],
      )
    }
  for (const { slug, tenant, aliases } of endpoints) {
    const rows = [...at.log.state.table('endpoints').rows()].map(([, row]) => row)
    const row = rows.find((one) => one.slug === slug && (one.tenant_id === null) === (tenant === undefined))
    if (row?.managed_by === 'bootstrap') same(`bootstrap.endpoints "${slug}"`, aliases, row.aliases)
  }
}

/** A start with these settings and one more. */
const start = async ({ at, taken }: ReturnType<typeof counting>, { bootstrap, env }: Settings): Promise<SeedReport> => {
  at.env = env
  const [before, owned, decisions] = [working(at), ofTheApi(at), taken()]
  const report = await at.seed(bootstrap)
  expect(taken() - decisions).toBeLessThanOrEqual(1)
  const fresh = [...Object.values(env), ...report.minted.map(({ plaintext }) => plaintext)].map(sha256Hex)
  for (const digest of working(at)) expect(before.has(digest) || fresh.includes(digest)).toBe(true)
  expect(ofTheApi(at)).toEqual(owned)
  requireWords(at, bootstrap, report.notes)
  const events = at.log.events.length
  const again = await at.seed(bootstrap)
  expect([again.notes, again.minted]).toEqual([report.notes, []])
  expect(at.log.events.slice(events)).toEqual([])
  return report
}

const fileOf = (at: Installation): { readonly lines: readonly string[]; readonly bootstrap: Bootstrap } => {
  const text = exportedText(at.log.state, at.nowMs, [])
  const checked = checkBootstrap((Bun.YAML.parse(text) as { bootstrap: unknown }).bootstrap)
  if (!checked.ok) throw new Error(checked.error)
  expect(valueProblem(checked.value, KIND_TABLE)).toBeNull()
  return { lines: text.split('\n').filter((line) => !/^ *#|^ +id: key_/.test(line)), bootstrap: checked.value }
}

test('starts, writes of the API, exports into itself and elsewhere', async () => {
  const story = fc.record({
    starts: fc.array(fc.tuple(anySettings, anyWrites, fc.nat(3)), { minLength: 2, maxLength: 3 }),
  })
  await fc.assert(
    fc.asyncProperty(story, async ({ starts }) => {
      const here = counting()
      for (const [settings, writes, days] of starts) {
        await start(here, settings)
        here.at.nowMs += days * DAY_MS
        for (const one of writes) write(here.at, one)
        await start(here, settings)
      }
      const { lines, bootstrap } = fileOf(here.at)
      const events = here.at.log.events.length
      await here.at.seed(bootstrap)
      expect(here.at.log.events.slice(events)).toEqual([])
      const elsewhere = counting()
      elsewhere.at.nowMs = here.at.nowMs
      await start(elsewhere, { bootstrap, env: {} })
      expect(fileOf(elsewhere.at).lines).toEqual(lines)
    }),
    { numRuns: 30 },
  )
}, 60_000)
