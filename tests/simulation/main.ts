// `npm run simulate -- --seeds N --from SEED`: runs seeds one after the other and prints what was found. It replaces
// the clock, the timers and the randomness of its process, so it is a separate process.
//   --trace           prints every event of the runs
//   --mutant NAME     plants one of the bugs of `mutants.ts`
//   --plain           no budgets that change: the runs that seeds gave before such budgets existed
//   --focus WHAT      one of `tests/simulation/scenario/focus.ts`: conditions for a planted bug that few runs can find;
//                     by default that of the mutant
//   --first           stops at the first seed that finds something
//   --progress FILE   writes its progress there, and goes on from there
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { MUTANTS, plant } from './mutants.ts'
import { FOCUSES, type Focus } from './scenario/focus.ts'

const { values: options } = parseArgs({
  options: {
    seeds: { type: 'string', default: '1000' },
    from: { type: 'string', default: '1' },
    trace: { type: 'boolean', default: false },
    plain: { type: 'boolean', default: false },
    focus: { type: 'string' },
    first: { type: 'boolean', default: false },
    mutant: { type: 'string' },
    progress: { type: 'string' },
  },
})

/** What was run so far. */
interface Progress {
  readonly from: number
  /** The seed that comes next. */
  next: number
  readonly failed: number[]
  events: number
  answered: number
  decided: number
  seconds: number
}

const SAVE_EVERY = 100
const MOST_SHOWN = 10

const whole = (name: 'seeds' | 'from'): number => {
  const value = Number(options[name])
  if (!Number.isSafeInteger(value) || value < 0) throw new Error(`--${name} must be a whole number`)
  return value
}

const focusOf = (name: string | undefined): Focus | null => {
  const found = FOCUSES.find((focus) => focus === name)
  if (name !== undefined && found === undefined) throw new Error(`--focus must be one of ${FOCUSES.join(', ')}`)
  return found ?? null
}

const load = (from: number): Progress => {
  const { progress } = options
  if (progress !== undefined && existsSync(progress)) return JSON.parse(readFileSync(progress, 'utf8')) as Progress
  return { from, next: from, failed: [], events: 0, answered: 0, decided: 0, seconds: 0 }
}

const save = (progress: Progress): void => {
  if (options.progress === undefined) return
  writeFileSync(`${options.progress}.new`, JSON.stringify(progress))
  renameSync(`${options.progress}.new`, options.progress)
}

const main = async (): Promise<number> => {
  if (options.mutant !== undefined) plant(options.mutant)
  const focus = focusOf(options.focus ?? MUTANTS[options.mutant ?? '']?.focus)
  // Only now: what is planted must be there when it is loaded.
  const { runSeed } = await import('./run.ts')
  const progress = load(whole('from'))
  const end = progress.from + whole('seeds')
  const unhandled: unknown[] = []
  process.on('unhandledRejection', (error) => unhandled.push(error))
  const before = progress.seconds
  const startedMs = performance.now()
  while (progress.next < end) {
    const seed = progress.next++
    const { trace: keepsTrace, plain: isPlain } = options
    const { violations, digest, lines, events, answered, decided } = runSeed(seed, { keepsTrace, isPlain, focus })
    // Unhandled rejections are reported now; they would end a gateway.
    await new Promise((resolve) => setImmediate(resolve))
    const found = [...violations, ...unhandled.splice(0).map((error) => `unhandled: ${error}`)]
    progress.events += events
    progress.answered += answered
    progress.decided += decided
    progress.seconds = before + (performance.now() - startedMs) / 1_000
    if (options.trace) for (const line of lines) console.log(line)
    if (found.length > 0) {
      progress.failed.push(seed)
      if (progress.failed.length <= MOST_SHOWN) {
        console.log(`seed ${seed}, trace ${digest}:`)
        for (const violation of found) console.log(`  ${violation}`)
      }
    } else if (options.trace) console.log(`seed ${seed}, trace ${digest}`)
    if (seed % SAVE_EVERY === 0) save(progress)
    if (options.first && found.length > 0) break
  }
  save(progress)
  const { from, next, failed, events, answered, decided, seconds } = progress
  console.log(
    `${next - from} seeds from ${from}, ${failed.length} with ` +
      `violations${failed.length > 0 ? ` (${failed.slice(0, 20).join(', ')})` : ''}; ` +
      `${events} events, ${answered} requests answered, ${decided} decisions acknowledged; ${seconds.toFixed(1)} s`,
  )
  return failed.length
}

process.exitCode = (await main()) > 0 ? 1 : 0
