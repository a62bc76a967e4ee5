import { afterAll, expect, test } from 'bun:test'
import {
  chmodSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { decisionMacKey, writeDecision } from '../../src/domain/kernel/decision.ts'
import { openLog } from '../../src/log/open-log.ts'
import { CONTROL, foldAgain } from '../../src/state/fold.ts'
import { startChain } from '../../src/state/live/genesis.ts'
import { runCommand } from '../services/command.ts'

const folder = mkdtempSync(join(tmpdir(), 'gatelog-export-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const masterKey = Buffer.alloc(32, 7)
const env = {
  GATEWAY_DATA_DIR: join(folder, 'data'),
  GATEWAY_SECURITY_MASTER_KEY: masterKey.toString('base64'),
}

const run = (...args: string[]) => runCommand(['export', ...args], { cwd: folder, env })

/** A chain of three decisions, written as a gateway writes them; answers their ids. */
const written = async (): Promise<string[]> => {
  const macKey = decisionMacKey(masterKey)
  const log = openLog({ adapter: 'embedded', dataDir: env.GATEWAY_DATA_DIR, retentionMs: 3_600_000 })
  const nowMs = Date.now
  await startChain({ log, macKey, chainId: 'chain_of_the_test', nowMs, partitions: {} })
  const ids = [(await foldAgain(log, macKey, new AbortController().signal)).tip]
  for (const slug of ['first', 'second']) {
    const { bytes, id } = writeDecision(
      {
        parent: ids.at(-1)!,
        at: new Date(nowMs()).toISOString(),
        actor: { type: 'system', id: 'test' },
        cause: null,
        v: 1,
        events: [
          {
            type: 'tenant.created',
            data: { id: `ten_${slug}`, slug, name: slug, plan: null, rate_limits: null, managed_by: 'api' },
          },
        ],
      },
      macKey,
    )
    await log.append(CONTROL, 0, [{ key: null, value: bytes }])
    ids.push(id)
  }
  await log.close()
  return ids
}

test('export writes the configuration of now, of a decision and of a time, to stdout and to a file', async () => {
  const before = await run()
  expect(before.code).toBe(1)
  expect(before.errors).toMatch(/^gatelog: [^\n]+\n$/)

  const [genesis, first, second] = await written()
  const now = await run()
  expect({ code: now.code, errors: now.errors }).toEqual({ code: 0, errors: '' })
  expect(now.out).toContain(`# ${second}`)
  expect(Bun.YAML.parse(now.out)).toMatchObject({ bootstrap: { tenants: [{ slug: 'first' }, { slug: 'second' }] } })

  const file = join(folder, 'out.yaml')
  expect(await run('--as-of', first!, `--output=${file}`)).toMatchObject({ code: 0, printed: '' })
  expect(Bun.YAML.parse(readFileSync(file, 'utf8'))).toMatchObject({ bootstrap: { tenants: [{ slug: 'first' }] } })
  expect((await run('--as-of', genesis!)).out).toContain('  tenants: []\n')
  expect((await run('--as-of', '2999-01-01T00:00:00Z')).out).toContain('slug: second')

  for (const [args, words] of [
    [['--as-of', '2001-01-01'], 'this is before the first decision'],
    [['--as-of', 'f'.repeat(64)], 'no decision that counted has this id'],
    [['--as-of', 'yesterday'], '--as-of must be an RFC 3339 time'],
    [['--as-of'], '--as-of needs a value'],
    [['--outptu', 'x'], '"--outptu" is nothing that export takes'],
    [['--output', join(folder, 'none', 'x.yaml')], 'cannot be written (ENOENT)'],
  ] as const) {
    const { out, errors, code } = await run(...args)
    expect({ out, code }).toEqual({ out: '', code: 1 })
    expect(errors).toMatch(/^gatelog: [^\n]+\n$/)
    expect(errors).toContain(words)
  }

  // What it writes is taken as settings.
  writeFileSync(join(folder, 'gateway.yaml'), now.out)
  expect(await run('--output', file)).toMatchObject({ code: 0, printed: '' })
}, 120_000)

test('what stands at the path stays what it is: a link, a mode, a pipe', async () => {
  const [target, link, dangling, pipe] = ['target.yaml', 'link.yaml', 'dangling.yaml', 'pipe'].map((name) =>
    join(folder, name),
  ) as [string, string, string, string]
  const exported = async (path: string) => expect(await run('--output', path)).toMatchObject({ code: 0, printed: '' })
  const isWhole = (text: string) => expect(Bun.YAML.parse(text)).toHaveProperty('bootstrap.tenants.1.slug', 'second')
  writeFileSync(target, 'before')
  chmodSync(target, 0o640)
  symlinkSync('target.yaml', link)
  await exported(link)
  expect([readlinkSync(link), statSync(target).mode & 0o777]).toEqual(['target.yaml', 0o640])
  isWhole(readFileSync(target, 'utf8'))
  symlinkSync('made.yaml', dangling)
  await exported(dangling)
  expect(readlinkSync(dangling)).toBe('made.yaml')
  isWhole(readFileSync(join(folder, 'made.yaml'), 'utf8'))
  expect(Bun.spawnSync(['mkfifo', pipe]).exitCode).toBe(0)
  const reader = Bun.spawn(['cat', pipe], { stdout: 'pipe' })
  try {
    await exported(pipe)
    expect(statSync(pipe).isFIFO()).toBe(true)
    isWhole(await new Response(reader.stdout).text())
  } finally {
    reader.kill()
  }
  expect(readdirSync(folder).filter((name) => name.endsWith('.part'))).toEqual([])
}, 120_000)
