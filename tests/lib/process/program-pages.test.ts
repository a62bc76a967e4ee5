import { expect, test } from 'bun:test'
import { closeSync, fsyncSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { cleanMappings, letGoOfProgram } from '../../../src/lib/process/program-pages.ts'

const PROGRAM = '/opt/app (1)/bun'
const KIB = 1024

interface Shown {
  readonly path?: string
  readonly residentKb?: number
  readonly dirtyKb?: number
  readonly anonymousKb?: number
  readonly swapKb?: number
  readonly flags?: string | null
}
/** One mapping as the kernel shows it, with the fields that matter and some that do not. */
const shown = (head: string, has: Shown = {}): string => {
  const { path = PROGRAM, residentKb = 64, dirtyKb = 0, anonymousKb = 0, swapKb = 0, flags = 'rd mr mw me' } = has
  const row = (name: string, kb: number) => `${`${name}:`.padEnd(16)}${String(kb).padStart(8)} kB`
  return [
    `${head} fe:00 10069053                           ${path}`,
    row('Size', 25_000),
    row('Rss', residentKb),
    row('Private_Clean', residentKb - dirtyKb),
    row('Private_Dirty', dirtyKb),
    row('Anonymous', anonymousKb),
    row('Swap', swapKb),
    'THPeligible:           0',
    ...(flags === null ? [] : [`VmFlags: ${flags} `]),
    '',
  ].join('\n')
}

const RODATA = '00200000-01a38000 r--p 00000000'
const TEXT = '01a40000-06836000 r-xp 01838000'
const RELOCATED = '0684a000-06852000 r--p 06641000'
const WAS_WRITABLE = 'rd mr mw me ac'
const rodata = { start: 0x200000, end: 0x1a38000, residentBytes: 5084 * KIB }
const text = { start: 0x1a40000, end: 0x6836000, residentBytes: 9360 * KIB }

/** What Bun is mapped as, among others. */
const BUN = [
  shown(RODATA, { residentKb: 5084 }),
  shown(TEXT, { residentKb: 9360, flags: 'rd ex mr mw me' }),
  shown('06836000-0684a000 rw-p 0662d000', { dirtyKb: 48, anonymousKb: 48, flags: 'rd wr mr mw me ac' }),
  shown(RELOCATED, { residentKb: 24, dirtyKb: 12, anonymousKb: 12, flags: WAS_WRITABLE }),
  shown('06852000-06853000 rw-p 06649000', { residentKb: 0, flags: 'rd wr mr mw me ac' }),
  '0fd10000-0fd31000 rw-p 00000000 00:00 0                          [heap]\nRss:                 128 kB\n',
  shown('7f742544a000-7f742545a000 r--p 00000000', { path: '/usr/lib/libm.so.6' }),
  shown('7f742545a000-7f742546a000 r-xp 00000000', { path: `${PROGRAM}.so` }),
  '7ffd5b1ac000-7ffd5b1ae000 r-xp 00000000 00:00 0                          [vdso]\nRss:                   8 kB\n',
]

test('of a program its constants and its code are found, and nothing else', () => {
  expect(cleanMappings(BUN.join(''), PROGRAM)).toEqual([rodata, text])
  expect(cleanMappings(BUN.toReversed().join(''), PROGRAM)).toEqual([text, rodata])
  expect(cleanMappings(BUN.join(''), '/opt/other')).toEqual([])
  expect(cleanMappings('', PROGRAM)).toEqual([])
})

const KEPT: readonly [string, string][] = [
  ['relocated, all of it swapped out', shown(RELOCATED, { residentKb: 0, swapKb: 24 })],
  ['relocated, not touched since', shown(RELOCATED, { residentKb: 0, flags: WAS_WRITABLE })],
  ['relocated, by what is dirty', shown(RELOCATED, { dirtyKb: 12 })],
  ['relocated, by what is anonymous', shown(RELOCATED, { anonymousKb: 4 })],
  ['code with a breakpoint in it', shown(TEXT, { anonymousKb: 4 })],
  ['a kernel that does not tell the flags', shown(TEXT, { flags: null })],
  ['a kernel that does not tell what is swapped', shown(TEXT).replace(/^Swap:.*\n/m, '')],
  ['writable code', shown(TEXT.replace('r-xp', 'rwxp'))],
  ['shared', shown(RODATA.replace('r--p', 'rw-s'))],
  ['reserved', shown(RODATA.replace('r--p', '---p'))],
  ['cut short', shown(TEXT).slice(0, 150)],
]
test.each(KEPT)('a mapping is never named: %s', (_, smaps) => {
  expect(cleanMappings(smaps, PROGRAM)).toEqual([])
  expect(cleanMappings(`${BUN[0]}${smaps}${BUN[1]}`, PROGRAM)).toEqual([rodata, text])
})

test('where the system does not tell, nothing is let go', async () => {
  expect(await letGoOfProgram('/proc/self/none')).toBe(0)
})

interface Told {
  readonly answers: readonly string[]
  readonly turns: number
  readonly bytes: number
  readonly before: Held
  readonly after: Held
  readonly workedKb: number
}
interface Held {
  readonly fileKb: number
  readonly mappings: readonly { readonly kind: string; readonly kb: number }[]
}

const childTells = async (...words: string[]): Promise<Told> => {
  // A program that was installed just now is dirty in the kernel's memory, and is left alone until the disk has it.
  const program = openSync(process.execPath, 'r')
  fsyncSync(program)
  closeSync(program)
  const child = Bun.spawn([process.execPath, join(import.meta.dir, 'program-pages-child.ts'), ...words], {
    stdout: 'pipe',
    stderr: 'inherit',
  })
  const line = await new Response(child.stdout).text()
  expect(await child.exited).toBe(0)
  return JSON.parse(line)
}
const residentKb = ({ mappings }: Held, kind: string) =>
  mappings.filter((mapping) => mapping.kind === kind).reduce((sum, { kb }) => sum + kb, 0)

test('a process holds less of its program afterwards, and runs on as before', async () => {
  const { answers, turns, bytes, before, after, workedKb } = await childTells()
  expect(new Set(answers).size).toBe(1)
  expect(turns).toBeGreaterThan(1)
  expect(bytes / KIB).toBeGreaterThan(15_000)
  expect(before.fileKb - after.fileKb).toBeGreaterThan(8_000)
  expect(before.fileKb - workedKb).toBeGreaterThan(2_000)
  expect(residentKb(after, 'r-xp')).toBeLessThan(residentKb(before, 'r-xp') / 2)
  expect(residentKb(after, 'own')).toBeGreaterThanOrEqual(residentKb(before, 'own'))
})

test('elsewhere than on Linux nothing is let go', async () => {
  const { answers, bytes, before, after } = await childTells('elsewhere')
  expect(new Set(answers).size).toBe(1)
  expect(bytes).toBe(0)
  expect(after.fileKb).toBeGreaterThan(before.fileKb - 1_000)
})
