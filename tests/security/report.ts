// `npm run security`: runs the tests of the security list and prints which rows hold: `passed x of y`, with the reason
// for each that does not.
// For the row about smuggled requests it compares 40,000 streams of bytes with an independent parser; `--seed=7` draws
// other ones. `S13 S22` runs those rows only; `--table` prints the table of `docs/security.md` instead.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { namedTests, SECURITY_ROWS, securityTable } from './rows.ts'
import { CASES, fuzz, shown } from './smuggling/fuzz.ts'

const ROOT = join(import.meta.dir, '../..')
const TEST_TIMEOUT_MS = 240_000

interface Count {
  ran: number
  failed: number
}

const wanted = new Set(process.argv.slice(2).flatMap((text) => Number(/^S(\d+)$/.exec(text)?.[1] ?? []) || []))
const rows = SECURITY_ROWS.filter(({ number }) => wanted.size === 0 || wanted.has(number))

/** The results of each row's tests; the runner's output is shown when one failed. */
const runAll = async (): Promise<ReadonlyMap<number, Count>> => {
  const folder = mkdtempSync(join(tmpdir(), 'gatelog-security-'))
  const report = join(folder, 'junit.xml')
  const isWanted = (number: number) => rows.some((row) => row.number === number)
  const files = [...new Set(namedTests().flatMap(({ number, file }) => (isWanted(number) ? [file] : [])))]
  const flags = [
    '-t',
    '(^| )S[0-9]+: ',
    `--timeout=${TEST_TIMEOUT_MS}`,
    '--reporter=junit',
    `--reporter-outfile=${report}`,
  ]
  const run = Bun.spawn([process.execPath, 'test', ...flags, ...files], {
    cwd: ROOT,
    stdin: 'ignore',
    stdout: 'ignore',
    stderr: 'pipe',
  })
  const said = await new Response(run.stderr).text()
  if ((await run.exited) !== 0) console.error(said)
  const text = readFileSync(report, 'utf8')
  rmSync(folder, { recursive: true, force: true })
  const counts = new Map<number, Count>()
  for (const [, name, rest] of text.matchAll(/<testcase name="([^"]*)"([^>]*?(?:\/>|>[\s\S]*?<\/testcase>))/g)) {
    const number = Number(/^S(\d+): /.exec(name!)?.[1] ?? 0)
    if (number === 0 || rest!.includes('<skipped')) continue
    const count = counts.get(number) ?? { ran: 0, failed: 0 }
    counts.set(number, { ran: count.ran + 1, failed: count.failed + (rest!.includes('<failure') ? 1 : 0) })
  }
  return counts
}

/** The row of a second request that is hidden in the first. */
const SMUGGLING_ROW = 22

/** Whether the own server reads requests as an independent parser does; prints what it does not. */
const fuzzed = async (): Promise<boolean> => {
  const node = Bun.which('node')
  if (node === null) {
    console.log('smuggling: not compared, there is no Node here whose parser could be asked')
    return false
  }
  const seed = Number(/^--seed=(\d+)$/m.exec(process.argv.join('\n'))?.[1] ?? 1)
  const result = await fuzz(CASES, seed, node)
  for (const difference of result.differences.slice(0, 10)) console.log(difference)
  console.log(shown(result))
  return result.differences.length === 0
}

const main = async (): Promise<number> => {
  const counts = await runAll()
  const isAlike = !rows.some(({ number }) => number === SMUGGLING_ROW) || (await fuzzed())
  let passed = 0
  let broken = 0
  for (const { number, attack, absent } of rows) {
    const { ran, failed } = counts.get(number) ?? { ran: 0, failed: 0 }
    const holds = ran > 0 && failed === 0 && (number !== SMUGGLING_ROW || isAlike)
    if (!holds) broken++
    else if (absent === undefined) passed++
    const state = !holds ? `FAILED (${failed} of ${ran} tests)` : absent === undefined ? 'holds' : `absent: ${absent}`
    console.log(`S${number}`.padEnd(4), `${ran}`.padStart(4), 'tests ', state.padEnd(8), `(${attack})`)
  }
  console.log(`passed ${passed} of ${rows.length}`)
  return broken === 0 ? 0 : 1
}

if (process.argv.includes('--table')) console.log(securityTable())
else process.exit(await main())
