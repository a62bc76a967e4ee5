// The supply chain: few packages, each at one exact version with its digest, no install scripts, and no package that
// contacts its vendor.
import { expect, test } from 'bun:test'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { billOfMaterials, type Component, type Lock } from '../../infra/sbom.ts'
import { KINDS } from '../../src/providers/kinds.ts'

const ROOT = join(import.meta.dir, '../..')
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')
const manifest = JSON.parse(read('package.json'))
const lockText = read('bun.lock')
const lock = Bun.JSONC.parse(lockText) as Lock

const bill = () =>
  billOfMaterials(lockText, manifest, (path) => {
    const file = join(ROOT, 'node_modules', path, 'package.json')
    return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : null
  })

test('S36: dependencies are few and exact, the lock is frozen, and nothing runs when they are installed', () => {
  const { dependencies, devDependencies, optionalDependencies, scripts, trustedDependencies } = manifest
  for (const [name, version] of Object.entries({ ...dependencies, ...devDependencies, ...optionalDependencies }))
    expect([name, version]).toEqual([name, expect.stringMatching(/^\d+\.\d+\.\d+(-[\w.]+)?$/)])
  expect(Object.keys(dependencies).length).toBeLessThan(12)
  expect(trustedDependencies ?? []).toEqual([])
  expect(Object.keys(scripts).filter((name) => /install|prepare|^(pre|post)/.test(name))).toEqual([])
  expect(read('infra/launch.mjs')).toContain("'--frozen-lockfile'")
  expect(read('infra/launch.mjs')).toContain("'--ignore-scripts'")
  expect(read('bunfig.toml')).toMatch(/^exact = true$/m)
  for (const [key, [id, registry, , integrity]] of Object.entries(lock.packages))
    expect([key, id, registry, integrity]).toEqual([key, id, '', expect.stringMatching(/^sha512-[A-Za-z0-9+/]{86}==$/)])
})

test('S36: the bill of materials names every package of the lock once, with version, digest, scope and licence, and is always the same', () => {
  const { components, dependencies, serialNumber } = bill()
  expect(bill()).toEqual(bill())
  expect(components).toHaveLength(Object.keys(lock.packages).length)
  expect(new Set(components.map((each) => each['bom-ref'])).size).toBe(components.length)
  for (const { name, version, hashes, purl } of components) {
    expect(purl).toBe(`pkg:npm/${name.replace('@', '%40')}@${version}`)
    expect(hashes).toEqual([{ alg: 'SHA-512', content: expect.stringMatching(/^[0-9a-f]{128}$/) }])
  }
  const byName = new Map(components.map((each) => [each.name, each]))
  for (const name of Object.keys(manifest.dependencies))
    expect([name, byName.get(name)?.scope]).toEqual([name, 'required'])
  for (const name of Object.keys(manifest.devDependencies))
    expect([name, byName.get(name)?.scope]).not.toEqual([name, 'required'])
  expect(byName.get('@biomejs/biome')?.scope).toBe('excluded')
  const refs = new Set([`pkg:npm/gatelog@${manifest.version}`, ...components.map((each) => each['bom-ref'])])
  expect(dependencies.every(({ ref, dependsOn }) => refs.has(ref) && dependsOn.every((each) => refs.has(each)))).toBe(
    true,
  )
  const changed = billOfMaterials(lockText.replace('"kafkajs@2.2.4"', '"kafkajs@2.2.5"'), manifest, () => null)
  expect(changed.serialNumber).not.toBe(serialNumber)
  expect(changed.components.find(({ name }) => name === 'kafkajs')?.version).toBe('2.2.5')
})

const PERMISSIVE = /^(MIT|ISC|0BSD|Apache-2\.0|BSD-[23]-Clause|Unlicense|BlueOak-1\.0\.0|MIT OR Apache-2\.0)$/

test('S36: what ships has a permissive licence', () => {
  const licenceOf = ({ licenses }: Component) => {
    const [first] = licenses ?? []
    return first === undefined ? null : 'expression' in first ? first.expression : first.license.name
  }
  const shipped = bill().components.filter(
    ({ scope, name }) => scope !== 'excluded' && existsSync(join(ROOT, 'node_modules', name)),
  )
  expect(shipped.length).toBeGreaterThan(20)
  const odd = shipped
    .map((each) => [each.name, licenceOf(each)] as const)
    .filter(([, licence]) => !PERMISSIVE.test(licence ?? ''))
  expect(odd).toEqual([])
})

/** Hosts in the source that are never called: schemas, examples, a page for people. */
const NEVER_CALLED = [
  '127.0.0.1',
  'collector',
  'localhost',
  'example.com',
  'app.example.com',
  'gateway.example.com',
  'bun.sh',
  'cyclonedx.org',
  'json-schema.org',
  'internal.amazon.com',
  'past.invalid',
  'schema.invalid',
]

test('S36: nothing calls home: every host in the source is that of a provider, or one that nobody calls', () => {
  const files = [...new Bun.Glob('{src,projections,infra}/**/*.{ts,mjs}').scanSync({ cwd: ROOT })].filter(
    (path) => !path.startsWith('infra/kafka/'),
  )
  const hosts = new Set(
    files.flatMap((path) =>
      [...read(path).matchAll(/https?:\/\/([a-z0-9][a-z0-9.-]*[a-z0-9])/gi)].map(([, host]) => host!),
    ),
  )
  const ofProviders = new Set(
    [...KINDS.values()].flatMap(({ defaultBaseUrl }) =>
      defaultBaseUrl === null ? [] : [new URL(defaultBaseUrl).hostname],
    ),
  )
  const strange = [...hosts].filter(
    (host) => !ofProviders.has(host) && !NEVER_CALLED.includes(host) && host !== 'bedrock-runtime',
  )
  expect(strange).toEqual([])
  expect(readdirSync(join(ROOT, 'patches'))).toEqual(
    Object.values(lock.patchedDependencies ?? {}).map((path) => path.replace('patches/', '')),
  )
})
