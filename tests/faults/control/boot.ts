// C9: how long a start on a long chain takes, from the log and from a snapshot. `bun tests/faults/control/boot.ts [--most 1000000]`: 1,000, 100,000 and
// 1,000,000 decisions, each in a process of its own (tests/bench/start.ts).
import { join } from 'node:path'
import { conclude, type Figure, numberArgument } from './figures.ts'

const BENCH = join(import.meta.dir, '../../bench/start.ts')
const SIZES = [1_000, 100_000, 1_000_000]
/** A million decisions without a snapshot; less for less. */
const AIM_MS = 10_000

const msIn = (text: string, start: string): number =>
  Number(new RegExp(`${start}.*with the key index (\\d+) ms`).exec(text)?.[1] ?? Number.NaN)

/** `aimMs`: what both starts may take at most. */
export const boot = async (most: number, aimMs = AIM_MS): Promise<readonly Figure[]> => {
  const figures: Figure[] = []
  for (const size of SIZES.filter((each) => each <= most)) {
    const child = Bun.spawn([process.execPath, BENCH, String(size)], { stdout: 'pipe', stderr: 'inherit' })
    const text = await new Response(child.stdout).text()
    const code = await child.exited
    const fromLog = msIn(text, 'from the log')
    const fromSnapshot = msIn(text, 'from the snapshot')
    // Its own code only says whether its aims were met.
    if (Number.isNaN(fromLog + fromSnapshot))
      throw new Error(`the bench of ${size} decisions ended with ${child.signalCode ?? code} and said: ${text}`)
    const equal = text.includes('state: equal')
    const figure = `ready in ${fromLog} ms from the log, ${fromSnapshot} ms from a snapshot; digests ${equal ? 'equal' : 'DIFFERENT'}`
    const what = `start on ${size.toLocaleString('en')} decisions, embedded log`
    figures.push({ row: 'C9', what, figure, n: size, good: equal && fromLog < aimMs && fromSnapshot < aimMs })
    console.error(`${what}: ${figure}`) // the table comes at the end, after minutes
  }
  return figures
}

if (import.meta.main) conclude(await boot(numberArgument('most', 1_000_000)))
