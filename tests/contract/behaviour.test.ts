// docs/behaviour.md is kept true: tests carry its headings (the marker `docs/behaviour.md: "<heading>"`), its tables
// are those of the code, and nothing refers to a document that is not in the repository.
import { describe, expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { SCOPES } from '../../src/domain/access/api-key.ts'
import { OVERRIDE_KINDS } from '../../src/domain/steering/override-target.ts'
import { STRATEGIES, strategyOf } from '../../src/domain/steering/policy.ts'
import { BODY_LIMIT_BYTES, JSON_DEPTH_LIMIT, JSON_NAMES_LIMIT, JSON_VALUES_LIMIT } from '../../src/entry/body.ts'
import { PLAIN } from '../../src/inference/intent/headers.ts'
import { BUILT_IN } from '../../src/inference/plan/policies.ts'
import { noCandidateLeft } from '../../src/inference/plan/refusals.ts'
import { REJECTED_REASONS } from '../../src/inference/plan/rejections.ts'
import { BREAKER_DEFAULTS } from '../../src/state/health/breaker.ts'
import { DEFAULT_WEIGHTS } from '../../src/state/health/scores.ts'
import type { CatalogueEntry } from '../../src/state/port.ts'
import { ERRORS } from '../../src/wire/errors.ts'

const ROOT = join(import.meta.dir, '../..')
const PAGE = readFileSync(join(ROOT, 'docs/behaviour.md'), 'utf8')
const HEADINGS = [...PAGE.matchAll(/^###? (.+)$/gm)].map(([, heading]) => heading!)

/** Path -> text of each file that people read or run, fixtures aside. */
const FILES: ReadonlyMap<string, string> = new Map(
  ['{src,projections,infra,tests,docs,examples}/**/*.{ts,mts,mjs,sql,py,md,yaml,yml}', '*.md']
    .flatMap((pattern) => [...new Bun.Glob(pattern).scanSync({ cwd: ROOT })])
    .filter((path) => !path.includes('fixtures/') && !path.includes('node_modules/'))
    .map((path) => [path, readFileSync(join(ROOT, path), 'utf8')]),
)

/** The headings that a file names. */
const named = (text: string): string[] =>
  [...text.matchAll(/docs\/behaviour\.md: ("[^"\n<>]+"(?:, "[^"\n<>]+")*)/g)].flatMap(([, list]) =>
    [...list!.matchAll(/"([^"]+)"/g)].map(([, heading]) => heading!),
  )

/** The cells of the table below a heading, without their marks of code. */
const tableBelow = (heading: string): string[][] => {
  const [, section = ''] = PAGE.split(new RegExp(`^###? ${heading}$`, 'm'))
  const lines = section.split(/^##/m)[0]!.split('\n')
  const rows = lines.filter((line) => line.startsWith('| ')).slice(1)
  return rows.map((row) =>
    row
      .slice(2, -1)
      .split('|')
      .map((cell) => cell.trim().replaceAll('`', '')),
  )
}

describe('the headings', () => {
  test('stand once each', () => {
    expect(HEADINGS.length).toBeGreaterThan(30)
    expect(HEADINGS.filter((heading, i) => HEADINGS.indexOf(heading) !== i)).toEqual([])
  })

  test('are each named by a test', () => {
    const markers = new Set([...FILES].filter(([path]) => path.endsWith('.test.ts')).flatMap(([, text]) => named(text)))
    expect(HEADINGS.filter((heading) => !markers.has(heading))).toEqual([])
  })

  test('are all that a file names', () => {
    const unknown = [...FILES].flatMap(([path, text]) =>
      named(text).flatMap((heading) => (HEADINGS.includes(heading) ? [] : [`${path}: "${heading}"`])),
    )
    expect(unknown).toEqual([])
  })
})

describe('the tables', () => {
  test('errors are those of the code', () => {
    const word = (flag: boolean) => (flag ? 'yes' : 'no')
    const rows = Object.entries(ERRORS).map(([code, { status, type, retryable, fallback }]) => [
      ...[code, String(status), type, word(retryable), word(fallback)],
    ])
    expect(tableBelow('Errors').map((cells) => cells.slice(0, 5))).toEqual(rows)
  })

  test('rejected candidates stand in the order of the code, with the error that a client gets', () => {
    const candidates = [{ name: 'small', capabilities: [] }] as unknown as readonly CatalogueEntry[]
    const intent = { model: 'small', requirements: [{ capability: 'tools', param: 'tools' }], headers: PLAIN }
    const rows = REJECTED_REASONS.map((reason) => {
      const { status, code } = noCandidateLeft(
        candidates,
        [reason],
        intent as unknown as Parameters<typeof noCandidateLeft>[2],
      )
      return [reason, `${status} ${code}`]
    })
    expect(tableBelow('Rejected candidates').map(([reason, _, answer]) => [reason, answer!.split(',')[0]])).toEqual(
      rows,
    )
  })

  test('strategies have their names and aliases', () => {
    const rows = tableBelow('Strategies')
    expect(rows.map(([name]) => name)).toEqual([...STRATEGIES])
    for (const [name, _, aliases = ''] of rows)
      for (const alias of aliases.split(', ').filter(Boolean)) expect(strategyOf(alias) as string).toBe(name!)
  })

  test('scopes, kinds of overrides and limits of time and size are those of the code', () => {
    expect(tableBelow('Scopes').map(([scope]) => scope!)).toEqual(expect.arrayContaining([...SCOPES]))
    expect(tableBelow('Overrides').map(([kind]) => kind!)).toEqual([...OVERRIDE_KINDS])
    const { connectMs, firstTokenMs, streamIdleMs, totalMs } = BUILT_IN
    const defaults = [connectMs, firstTokenMs, streamIdleMs, totalMs].map((ms) => `${ms / 1_000} s`)
    expect(tableBelow('Time limits').map(([_, value]) => value!)).toEqual([...defaults, 'none'])
    const limits = tableBelow('Limits').map(([_, limit]) => limit)
    expect(limits).toContain(`${BODY_LIMIT_BYTES / 1024 / 1024} MiB`)
    const [values, names] = [JSON_VALUES_LIMIT, JSON_NAMES_LIMIT].map((limit) => limit.toLocaleString('en-US'))
    expect(limits).toContain(`${JSON_DEPTH_LIMIT} levels, ${values}, ${names}`)
  })

  test('the numbers of routing and health in the text are those of the code', () => {
    const weights = Object.entries(DEFAULT_WEIGHTS).map(([name, weight]) => `${name} ${weight}`)
    expect(PAGE).toContain(weights.join(', '))
    expect(PAGE).toContain('five failures in a row, or 50 % of at least 20 calls in 60 s, open\n  it for 30 s')
    expect(BREAKER_DEFAULTS).toEqual({
      failureThreshold: 5,
      failureRatePct: 50,
      minimumRequests: 20,
      cooldownMs: 30_000,
    })
    const { maxAttempts, retryAttempts, backoffInitialMs, backoffMaxMs } = BUILT_IN
    expect(PAGE).toContain('At most three attempts')
    expect(PAGE).toContain('(`retry.attempts`, 1)')
    expect(PAGE).toContain('doubling pause: 100 ms at first, 1 s at most')
    expect({ maxAttempts, retryAttempts, backoffInitialMs, backoffMaxMs }).toEqual({
      maxAttempts: 3,
      retryAttempts: 1,
      backoffInitialMs: 100,
      backoffMaxMs: 1_000,
    })
  })
})

describe('references', () => {
  /** Documents that are not in the repository, and numbers of their parts. Written so that this file does not match. */
  const OUTSIDE: readonly RegExp[] = [
    /\b(?:RE)?DESI[G]N\b/,
    /\bDEVELOP[E]RS\.md/,
    /\bthe specificatio[n]\b/i,
    /\bspec(?:ificatio[n])?(?:, section)? \d/i,
    /\bthe rulin[g]s?\b|\brulin[g]'s\b|\bas rule[d]\b/i,
    /\bguide[s]\/[a-z]/,
    /\bsectio[n]s? \d/i,
  ]

  test('lead to nothing outside of the repository', () => {
    const found = [...FILES].flatMap(([path, text]) =>
      text
        .split('\n')
        .flatMap((line, i) =>
          OUTSIDE.some((pattern) => pattern.test(line)) ? [`${path}:${i + 1}: ${line.slice(0, 160)}`] : [],
        ),
    )
    expect(found).toEqual([])
  })

  test('to pages of docs/ lead to pages that are there', () => {
    const missing = [...FILES].flatMap(([path, text]) =>
      [...text.matchAll(/\bdocs\/[\w/-]+\.md\b/g)].flatMap(([page]) =>
        existsSync(join(ROOT, page)) ? [] : [`${path}: ${page}`],
      ),
    )
    expect(missing).toEqual([])
  })
})
