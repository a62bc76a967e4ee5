// A thousand seeds of the simulation, a check that a seed gives the same run twice, and a check that planted bugs are
// found. Each runs in separate processes, which replace clock, timers and randomness. A finding is printed with its
// seed; CONTRIBUTING.md describes how to run it again.
import { afterAll, describe, expect, test } from 'bun:test'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { MUTANTS } from './mutants.ts'

const SEEDS = 1_000
/** It gives way to all other tests. */
const LIMIT_MS = 900_000
const running = new Set<Bun.Subprocess>()
afterAll(() => {
  for (const child of running) child.kill()
})

/** Runs the simulation. Returns its output and its exit code. */
const simulate = async (...parameters: string[]): Promise<{ readonly said: string; readonly code: number }> => {
  const child = Bun.spawn([process.execPath, join(import.meta.dir, 'main.ts'), ...parameters], {
    ...{ stdin: 'ignore', stdout: 'pipe', stderr: 'inherit' },
  })
  running.add(child)
  const said = await new Response(child.stdout).text()
  const code = await child.exited
  running.delete(child)
  return { said, code }
}

test(
  `${SEEDS} seeds: nothing is lost, doubled, reordered, overspent or forgotten`,
  async () => {
    const parts = Math.min(2, availableParallelism())
    const each = SEEDS / parts
    const results = await Promise.all(
      Array.from({ length: parts }, (_, i) => simulate('--seeds', String(each), '--from', String(1 + i * each))),
    )
    for (const { said } of results) console.log(said.trimEnd())
    for (const { said, code } of results) expect([code, said.includes(' 0 with violations')]).toEqual([0, true])
  },
  LIMIT_MS,
)

test(
  'a seed gives the same trace every time, another seed another one',
  async () => {
    const [once, again, other] = await Promise.all(
      ['7', '7', '8'].map((from) => simulate('--seeds', '1', '--from', from, '--trace')),
    )
    const traceOf = ({ said }: { said: string }) => said.split('\n').filter((line) => !/ seeds from /.test(line))
    expect(traceOf(once!).length).toBeGreaterThan(100)
    expect(traceOf(again!)).toEqual(traceOf(once!))
    expect(traceOf(other!)).not.toEqual(traceOf(once!))
  },
  LIMIT_MS,
)

describe('a planted bug is found within 1,000 seeds', () => {
  for (const [name, { focus }] of Object.entries(MUTANTS)) {
    test(
      name,
      async () => {
        const { said, code } = await simulate('--mutant', name, '--seeds', String(SEEDS), '--first')
        const [first] = said.split('\n')
        console.log(`${name}: ${first}`)
        const [, seed] = /^seed (\d+), trace /.exec(first ?? '') ?? []
        expect([code, seed === undefined]).toEqual([1, false])
        // It is the bug that was found: without it the same run is as it should be.
        const without = await simulate(
          '--seeds',
          '1',
          '--from',
          seed!,
          ...(focus === undefined ? [] : ['--focus', focus]),
        )
        expect([without.code, without.said.includes(' 0 with violations')]).toEqual([0, true])
      },
      LIMIT_MS,
    )
  }
})
