// Three real processes over one log, one of them killed on the way: what must hold afterwards, on every adapter.
import { expect } from 'bun:test'
import { createHash } from 'node:crypto'
import { GENESIS } from '../../../src/domain/kernel/decision.ts'
import type { LogRecord } from '../../../src/log/port.ts'
import { CONTROL, foldAgain } from '../../../src/state/fold.ts'
import { eventually } from '../../services/eventually.ts'
import { begin, macKey } from '../support.ts'
import { openRaceLog, type RaceLine, type RaceLog, type RaceTask } from './race-writer.ts'

const spawn = (task: RaceTask) => {
  const child = Bun.spawn(
    [process.execPath, new URL('./race-writer.ts', import.meta.url).pathname, JSON.stringify(task)],
    {
      stdin: 'pipe',
      stdout: 'pipe',
      stderr: 'inherit',
    },
  )
  const lines: RaceLine[] = []
  const heard = (async () => {
    let rest = ''
    for await (const chunk of child.stdout.pipeThrough(
      new TextDecoderStream() as never,
    ) as unknown as AsyncIterable<string>) {
      const parts = (rest + chunk).split('\n')
      rest = parts.pop()!
      for (const part of parts) lines.push(JSON.parse(part) as RaceLine)
    }
  })()
  return { child, lines, heard }
}

const recordsOf = async (log: ReturnType<typeof openRaceLog>): Promise<LogRecord[]> => {
  const end = await log.end(CONTROL, 0)
  const records: LogRecord[] = []
  for await (const batch of log.read(CONTROL, 0, 0, new AbortController().signal)) {
    records.push(...batch)
    if (records.length >= end) break
  }
  return records
}

/** The counting rule once more, as plainly as it can be written. */
const countedIn = (records: readonly LogRecord[]) => {
  const counted: { id: string; mark: string; slug: string }[] = []
  let tip = GENESIS
  for (const { value } of records) {
    const decision = JSON.parse(Buffer.from(value!).toString())
    if (decision.parent !== tip) continue
    tip = createHash('sha256').update(value!).digest('hex')
    counted.push({ id: tip, mark: decision.actor.id, slug: decision.events[0].data.slug })
  }
  return counted
}

/** Runs the race and checks it; answers what happened, for whoever prints it. */
export const raceProcesses = async (options: RaceLog, { commands, atOnce }: Pick<RaceTask, 'commands' | 'atOnce'>) => {
  const log = openRaceLog(options)
  const children: ReturnType<typeof spawn>[] = []
  try {
    await begin(log)
    const limit = { limitMs: 600_000, everyMs: 5 }
    const startedMs = performance.now()
    for (const name of ['a', 'b', 'victim']) children.push(spawn({ log: options, name, commands, atOnce }))
    const [a, b, victim] = children as [(typeof children)[0], (typeof children)[0], (typeof children)[0]]
    const done = (child: (typeof children)[0], count: number) => child.lines.length >= count
    await eventually('the victim is at work', () => done(victim, commands / 3) || victim.child.exitCode !== null, limit)
    victim.child.kill('SIGKILL')
    await eventually(
      'both writers are done',
      () => {
        if (done(a, commands) && done(b, commands)) return true
        if (a.child.exitCode !== null || b.child.exitCode !== null) throw new Error('a writer ended too early')
        return false
      },
      limit,
    )
    const tookMs = performance.now() - startedMs
    await victim.heard
    const end = await log.end(CONTROL, 0)
    for (const { child } of [a, b]) {
      child.stdin.write(`${end}\n`)
      await child.stdin.flush()
    }
    await Promise.all([a.heard, b.heard])
    const records = await recordsOf(log)
    const counted = countedIn(records)
    const replay = await foldAgain(log, macKey, new AbortController().signal)
    const ends = [a, b].map(({ lines }) => lines.at(-1))
    for (const last of ends)
      expect(last).toMatchObject({ tip: counted.at(-1)!.id, digest: replay.state.digest(), next: end })
    const ids = new Map(counted.map(({ id, mark }) => [mark, id]))
    expect(ids.size).toBe(counted.length) // no command counted twice
    for (const { lines } of children) {
      for (const line of lines) {
        if (!('mark' in line)) continue
        if (line.outcome === 'changed') expect(ids.get(line.mark)).toBe(line.revision) // acknowledged: in the chain
        if (line.outcome === 'refused') expect(ids.has(line.mark)).toBe(false)
        expect(line.outcome).not.toBe('failed')
      }
    }
    const slugs = counted.map(({ slug }) => slug).filter((slug) => slug?.startsWith('shared-'))
    expect(new Set(slugs).size).toBe(slugs.length) // of those that wanted the same name at once, one got it
    expect(new Set(slugs).size).toBe(Math.ceil(commands / 3))
    return { counted: counted.length, records: records.length, tookMs, ends }
  } finally {
    for (const { child } of children) {
      child.kill('SIGKILL')
      await child.exited
    }
    await log.close()
  }
}
