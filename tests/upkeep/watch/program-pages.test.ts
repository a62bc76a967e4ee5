import { expect, test } from 'bun:test'
import { letGoWhenWarm } from '../../../src/upkeep/watch/program-pages.ts'

const TIMES = { firstMs: 1_000, everyMs: 60_000 }

/** Time that passes when it is told to. */
const waitingFor = () => {
  let next: { readonly task: () => unknown; readonly ms: number } | null = null
  return {
    get ms() {
      return next?.ms ?? null
    },
    after: (task: () => unknown, ms: number) => {
      const own = { task, ms }
      next = own
      return () => {
        if (next === own) next = null
      }
    },
    /** It is time: resolves when what waited for it is done. */
    async pass(): Promise<void> {
      const due = next
      next = null
      await due?.task()
    },
  }
}

const listening = () => {
  const told: [string, unknown][] = []
  return { told, debug: (event: string, fields?: object) => void told.push([event, fields]) }
}

test('the program is let go of after its time and again and again, until that is closed', async () => {
  const [diagnostics, time] = [listening(), waitingFor()]
  const pages = letGoWhenWarm(diagnostics, TIMES, time.after)
  expect([time.ms, diagnostics.told.length]).toEqual([TIMES.firstMs, 0])
  for (let times = 1; times <= 3; times++) {
    await time.pass()
    expect([time.ms, diagnostics.told.length]).toEqual([TIMES.everyMs, times])
  }
  for (const each of diagnostics.told) expect(each).toEqual(['program_pages_let_go', { bytes: expect.any(Number) }])
  pages.close()
  expect(time.ms).toBeNull()
})

test('one that is closed before lets go of nothing', () => {
  const [diagnostics, time] = [listening(), waitingFor()]
  letGoWhenWarm(diagnostics, TIMES, time.after).close()
  expect([time.ms, diagnostics.told]).toEqual([null, []])
})

test('closed while it lets go, it does not wait again', async () => {
  const [diagnostics, time] = [listening(), waitingFor()]
  const pages = letGoWhenWarm(diagnostics, TIMES, time.after)
  const passing = time.pass()
  pages.close()
  await passing
  expect([time.ms, diagnostics.told.length]).toEqual([null, 1])
})
