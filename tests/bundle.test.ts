// The bundle: made once for each state of the sources, with the threads and data files that it needs.
import { afterAll, describe, expect, spyOn, test } from 'bun:test'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { commandsOf } from '../infra/bundle.mjs'

const ROOT = join(import.meta.dir, '..')
const scratch = mkdtempSync(join(tmpdir(), 'gatelog-bundle-'))
afterAll(() => rmSync(scratch, { recursive: true, force: true }))

/**
 * A source tree whose program starts a thread, reads data and prints what it found; `word` comes from a module that
 * both import.
 */
const sources = (word = 'shared'): string => {
  const root = mkdtempSync(join(scratch, 'sources-'))
  const write = (path: string, text: string) => {
    mkdirSync(join(root, path, '..'), { recursive: true })
    writeFileSync(join(root, path), text)
  }
  write('package.json', '{ "type": "module" }')
  write('src/lib/word.ts', `export const word = ${JSON.stringify(word)}`)
  write('src/data/numbers.json', '[1, 2]')
  write('src/deep/thread.ts', "import { word } from '../lib/word.ts'\npostMessage(['thread', word].join(': '))")
  cpSync(join(ROOT, 'src/lib/own-files.ts'), join(root, 'src/lib/own-files.ts'))
  write(
    'src/commands/cli.ts',
    `import { ownFile, ownModuleUrl } from '../lib/own-files.ts'
    import { word } from '../lib/word.ts'
    const thread = new Worker(ownModuleUrl('src/deep/thread'))
    const said = await new Promise((resolve) => { thread.onmessage = (message) => resolve(message.data) })
    console.log(JSON.stringify([word, said, await Bun.file(ownFile('src/data/numbers.json')).json()]))
    process.exit(0)`,
  )
  return root
}

const find = (root: string) => commandsOf(root, process.execPath, Bun.version)
const outputOf = (program: string) => Bun.spawnSync([process.execPath, program, '--help']).stdout.toString()

describe('the bundle', () => {
  test('runs its threads and reads its data from its own folder, and is made once for each state of the sources', () => {
    const root = sources()
    const program = find(root)
    expect(program).toStartWith(join(root, 'dist'))
    const moved = `${root}-moved`
    cpSync(join(program, '../../..'), moved, { recursive: true })
    expect(JSON.parse(outputOf(join(moved, 'src/commands/cli.js')))).toEqual(['shared', 'thread: shared', [1, 2]])
    writeFileSync(program, 'console.log("as it was made")')
    expect(find(root)).toBe(program)
    expect(outputOf(program)).toBe('as it was made\n')
    writeFileSync(join(root, 'src/lib/word.ts'), 'export const word = "other"')
    const next = find(root)
    expect(next).not.toBe(program)
    expect(JSON.parse(outputOf(next))[1]).toBe('thread: other')
    expect(commandsOf(root, process.execPath, '0.0.1')).not.toBe(next)
    writeFileSync(join(root, 'src/data/numbers.json'), '[3]')
    expect(JSON.parse(outputOf(find(root)))[2]).toEqual([3])
  })

  test('the oldest are removed, others stay for the processes that run them', () => {
    const root = sources()
    const made = Array.from({ length: 10 }, (_, i) => {
      writeFileSync(join(root, 'src/lib/word.ts'), `export const word = ${i}`)
      return find(root)
    })
    expect(made.map((program) => existsSync(program))).toEqual(made.map((_, i) => i >= 2))
  })

  test('several that start at once make one, and what a killed one left is not taken for it', async () => {
    const root = sources()
    const digest = find(root).slice(join(root, 'dist/').length).split('/')[0]!
    rmSync(join(root, 'dist'), { recursive: true })
    mkdirSync(join(root, 'dist', `${digest}.killed.partial/src/commands`), { recursive: true })
    const code = `import { commandsOf } from ${JSON.stringify(join(ROOT, 'infra/bundle.mjs'))}
      console.log(commandsOf(${JSON.stringify(root)}, process.execPath, Bun.version))`
    const children = Array.from({ length: 4 }, () => Bun.spawn([process.execPath, '-e', code], { stdout: 'pipe' }))
    const found = await Promise.all(children.map((child) => new Response(child.stdout).text()))
    expect(new Set(found)).toEqual(new Set([`${join(root, 'dist', digest, 'src/commands/cli.js')}\n`]))
    expect(readdirSync(join(root, 'dist')).sort()).toEqual([digest, `${digest}.killed.partial`])
    expect(JSON.parse(outputOf(found[0]!.trim()))[0]).toBe('shared')
  })

  test.each([
    ['its folder cannot be made', (root: string) => writeFileSync(join(root, 'dist'), ''), 'dist'],
    ['Bun refuses a source', (root: string) => writeFileSync(join(root, 'src/lib/word.ts'), 'export cnst'), 'word.ts'],
    ['data is missing', (root: string) => rmSync(join(root, 'src/data/numbers.json')), 'numbers.json'],
  ])('where %s the sources are started, and the reason is said', (_, harm, reason) => {
    const root = sources()
    harm(root)
    const said = spyOn(process.stderr, 'write').mockImplementation(() => true)
    try {
      expect(find(root)).toBe(join(root, 'src/commands/cli.ts'))
      expect(said.mock.calls.join('')).toContain('gatelog: starting from the sources, the bundle could not be made: ')
      expect(said.mock.calls.join('')).toContain(reason)
    } finally {
      said.mockRestore()
    }
    const left = statSync(join(root, 'dist')).isDirectory() ? readdirSync(join(root, 'dist')) : []
    expect(left).toEqual([])
  })

  test('knows every thread and all data of Gatelog: they are named by their path in plain words, nowhere else found by where a module lies', () => {
    const texts = [...new Bun.Glob('{src,projections}/**/*.ts').scanSync(ROOT)]
      .filter((path) => path !== 'src/lib/own-files.ts')
      .map((path) => ({ path, text: readFileSync(join(ROOT, path), 'utf8') }))
    for (const { path, text } of texts)
      for (const [call] of text.matchAll(/\bown(?:File|Module|ModuleUrl)\(.*/g))
        expect(call, path).toMatch(/^own\w+\('[a-z/.-]+'\)/)
    // Two write documents into a source tree, one looks for a package from where it lies.
    const own = texts.filter(({ text }) => /import\.meta\b/.test(text)).map(({ path }) => path)
    expect(own.sort()).toEqual([
      'src/commands/settings-docs.ts',
      'src/commands/topic-docs.ts',
      'src/upkeep/postgres/install.ts',
    ])
  })

  test('of Gatelog says what the sources say, and the image is made with it', () => {
    const program = find(ROOT)
    expect(program).toEndWith('.js')
    expect(outputOf(program)).toBe(outputOf(join(ROOT, 'src/commands/cli.ts')))
    expect(outputOf(program)).toContain('gateway')
    const image = readFileSync(join(ROOT, 'infra/Dockerfile'), 'utf8')
    expect(image).toContain('RUN bun infra/bundle.mjs /app /app/bundle')
    expect(image).toContain('ENTRYPOINT ["bun", "src/commands/cli.js"]')
  })
})
