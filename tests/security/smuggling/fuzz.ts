// Compares how the own server and an independent reader (Node's, llhttp) read the same bytes: a request that one of
// them sees and the other does not is how requests are smuggled. Run alone:
// `bun tests/security/smuggling/fuzz.ts --cases=40000 --seed=1`
import { METHODS } from 'node:http'
import { join } from 'node:path'
import { caseOf, Draw } from './cases.ts'
import { type Reading, type ReadRequest, readByOwn } from './own.ts'

export interface FuzzResult {
  readonly cases: number
  readonly seed: number
  /** Requests that both have read, and in the same way. */
  readonly agreed: number
  /** Cases of which the own server refuses more. */
  readonly stricter: number
  /** Cases that the two read differently, with their bytes. */
  readonly differences: readonly string[]
}

const BATCH = 500

/** Cases go to the process line by line, and come back so. */
const openOracle = (node: string) => {
  const child = Bun.spawn([node, join(import.meta.dir, 'oracle.mjs')], {
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'inherit',
  })
  const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  const line = async (): Promise<string> => {
    for (;;) {
      const end = text.indexOf('\n')
      if (end >= 0) {
        const found = text.slice(0, end)
        text = text.slice(end + 1)
        return found
      }
      const { done, value } = await reader.read()
      if (done) throw new Error('the independent reader has ended')
      text += value
    }
  }
  return {
    async read(cases: readonly (readonly Buffer[])[]): Promise<Reading[]> {
      for (const pieces of cases)
        child.stdin.write(`${JSON.stringify(pieces.map((piece) => piece.toString('base64')))}\n`)
      await child.stdin.flush()
      const readings: Reading[] = []
      for (const _ of cases) readings.push(JSON.parse(await line()) as Reading)
      return readings
    },
    async close(): Promise<void> {
      await child.stdin.end()
      await child.exited
    },
  }
}

const KNOWN_METHODS: ReadonlySet<string> = new Set(METHODS)
const TAB_AT_LENGTH = /^content-length:[^\r\n]*\t/im
const SPACE_AT_EXTENSION = /^[0-9a-f]+[ \t]+;/im
/**
 * What the independent reader refuses though HTTP has it, and nothing is hidden by it: a method that it does not know,
 * a tab around a length, a space before the extension of a chunk.
 */
const isExplained = ({ method }: ReadRequest, bytes: string): boolean =>
  !KNOWN_METHODS.has(method) || TAB_AT_LENGTH.test(bytes) || SPACE_AT_EXTENSION.test(bytes)

const isSame = (one: ReadRequest, other: ReadRequest): boolean => JSON.stringify(one) === JSON.stringify(other)

/**
 * Null where the two agree as far as the own server reads; else what differs. The own server may refuse what the other
 * takes. It may not take what the other refuses, or reads as something else.
 */
export const differenceOf = (own: Reading, other: Reading, bytes: string): string | null => {
  for (const [i, request] of own.requests.entries()) {
    const same = other.requests[i]
    if (same === undefined && other.refused && isExplained(request, bytes)) return null
    if (same === undefined)
      return other.refused ? 'takes a request that is refused' : 'takes a request that is not there'
    if (!isSame(request, same)) return 'reads a request differently'
  }
  if (other.requests.length > own.requests.length && !own.refused && own.ended !== true)
    return 'waits where a request is'
  return null
}

export const fuzz = async (cases: number, seed: number, node: string): Promise<FuzzResult> => {
  const draw = new Draw(seed)
  const oracle = openOracle(node)
  const differences: string[] = []
  let agreed = 0
  let stricter = 0
  for (let done = 0; done < cases; done += BATCH) {
    const batch = Array.from({ length: Math.min(BATCH, cases - done) }, () => caseOf(draw))
    const [readings, own] = await Promise.all([oracle.read(batch), Promise.all(batch.map(readByOwn))])
    for (const [i, reading] of own.entries()) {
      const other = readings[i]!
      const pieces = batch[i]!.map((piece) => piece.toString('latin1'))
      const difference = differenceOf(reading, other, pieces.join(''))
      if (difference !== null) {
        const bytes = JSON.stringify(pieces)
        differences.push(`${difference}: ${bytes}\n  own ${JSON.stringify(reading)}\n  other ${JSON.stringify(other)}`)
      } else agreed += reading.requests.length
      if (reading.requests.length < other.requests.length) stricter++
    }
  }
  await oracle.close()
  return { cases, seed, agreed, stricter, differences }
}

/** The result in one line. */
export const shown = ({ cases, seed, agreed, stricter, differences }: FuzzResult): string =>
  `smuggling: ${cases} cases against Node's parser (seed ${seed}): ${agreed} requests read alike, ` +
  `${stricter} cases in which this server refuses more, ${differences.length} differences`

const argument = (name: string, otherwise: number): number => {
  const given = process.argv.find((text) => text.startsWith(`--${name}=`))
  return given === undefined ? otherwise : Number(given.slice(name.length + 3))
}

/** The cases of `npm run security`. */
export const CASES = 40_000

if (import.meta.main) {
  const result = await fuzz(argument('cases', CASES), argument('seed', 1), Bun.which('node') ?? 'node')
  for (const difference of result.differences.slice(0, 10)) console.log(difference)
  console.log(shown(result))
  process.exit(result.differences.length === 0 ? 0 : 1)
}
