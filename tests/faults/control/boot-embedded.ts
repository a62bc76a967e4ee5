// C9 without gateways: the control state alone, from an embedded log, without a process start and without HTTP
// (tests/bench/long-logs/start.ts).
import { join } from 'node:path'
import type { Figure } from './figures.ts'

const BENCH = join(import.meta.dir, '../../bench/long-logs/start.ts')

const msIn = (text: string, start: string): number =>
  Number(new RegExp(`${start}.*with the key index (\\d+) ms`).exec(text)?.[1] ?? Number.NaN)

/** `aimMs`: what both starts may take at most. */
export const bootEmbedded = async (size: number, aimMs: number): Promise<Figure> => {
  const child = Bun.spawn([process.execPath, BENCH, String(size)], { stdout: 'pipe', stderr: 'inherit' })
  const text = await new Response(child.stdout).text()
  const code = await child.exited
  const fromLog = msIn(text, 'from the log')
  const fromSnapshot = msIn(text, 'from the snapshot')
  // The exit code of the script only shows whether its aims were met.
  if (Number.isNaN(fromLog + fromSnapshot))
    throw new Error(`the bench of ${size} decisions ended with ${child.signalCode ?? code} and said: ${text}`)
  const equal = text.includes('state: equal')
  const figure =
    `state and key index in ${fromLog} ms from the log, ${fromSnapshot} ms from a ` +
    `snapshot; digests ${equal ? 'equal' : 'DIFFERENT'}`
  const what = `the control state alone on ${size.toLocaleString('en')} decisions, embedded log`
  return { row: 'C9', what, figure, n: 1, good: equal && fromLog < aimMs && fromSnapshot < aimMs }
}
