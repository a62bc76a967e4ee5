// C3: a writer is stopped (SIGSTOP) after it has decided and before it has sent the decision. Meanwhile another
// instance edits the same row; then the writer resumes.
// `bun tests/faults/control/paused.ts [--seconds 30] [--commands 50]`: on a real broker.
import { startKafka } from '../../../infra/kafka/kafka.ts'
import { testTopics } from '../../services/kafka.ts'
import { openRaceLog, type RaceLog } from '../../state/commit/race-writer.ts'
import { begin, createTenant, openInstance, renameTenant } from '../../state/support.ts'
import { conclude, type Figure, numberArgument } from './figures.ts'
import type { PausedTask } from './paused-writer.ts'

const linesOf = (stream: ReadableStream<Uint8Array>) => {
  const reader = stream.getReader()
  const decoder = new TextDecoder()
  let rest = ''
  return async (): Promise<string> => {
    while (!rest.includes('\n')) {
      const { done, value } = await reader.read()
      if (done) throw new Error('the writer ended too early')
      rest += decoder.decode(value, { stream: true })
    }
    const at = rest.indexOf('\n')
    const line = rest.slice(0, at)
    rest = rest.slice(at + 1)
    return line
  }
}

export const paused = async (pauseMs: number, commands: number, options: RaceLog): Promise<readonly Figure[]> => {
  const log = openRaceLog(options)
  await begin(log)
  const editor = await openInstance('editor', log)
  try {
    await editor.live.ready()
    const slugs = Array.from({ length: commands }, (_, n) => `paused-${n}`)
    await Promise.all(slugs.map((slug) => editor.queue.commit(createTenant(slug))))
    const task: PausedTask = { log: options, tenants: slugs.map((slug) => `ten_${slug}`) }
    const child = Bun.spawn([process.execPath, `${import.meta.dir}/paused-writer.ts`, JSON.stringify(task)], {
      stdin: 'pipe',
      stdout: 'pipe',
      stderr: 'inherit',
    })
    const line = linesOf(child.stdout)
    if ((await line()) !== 'decided') throw new Error('the writer did not decide')
    child.kill('SIGSTOP')
    child.stdin.write('go\n')
    await child.stdin.flush()
    await Promise.all(slugs.map((slug) => editor.queue.commit(renameTenant(slug, 'edited'))))
    await Bun.sleep(pauseMs)
    child.kill('SIGCONT')
    let answer = await line()
    while (answer === 'decided') answer = await line()
    const outcomes = JSON.parse(answer) as string[]
    await child.exited
    const end = await log.end('gateway.control.v1', 0)
    await editor.live.condition.until(() => editor.live.next >= end, 10_000)
    const names = slugs.map((slug) => editor.live.control.table('tenants').get(`ten_${slug}`)!.name)
    const stale = names.filter((name) => name !== 'edited').length
    const wrongly = outcomes.filter((outcome) => outcome === 'changed').length
    const figure =
      `stale overwrites ${stale}; told that they changed something ${wrongly}, refused ` +
      `${outcomes.filter((outcome) => outcome === 'refused').length}, out of time ` +
      `${outcomes.filter((outcome) => outcome === 'failed').length}`
    const what = `a writer stopped for ${pauseMs / 1_000} s between deciding and sending, edited elsewhere meanwhile`
    return [{ row: 'C3', what, figure, n: commands, good: stale === 0 && wrongly === 0 }]
  } finally {
    await editor.close()
    await log.close()
  }
}

if (import.meta.main) {
  const kafka = await startKafka()
  const topics = testTopics(kafka.bootstrap)
  const log: RaceLog = { adapter: 'kafka', brokers: kafka.bootstrap, topic: await topics.create() }
  const figures = await paused(numberArgument('seconds', 30) * 1_000, numberArgument('commands', 50), log)
  topics.close()
  await kafka.stop()
  conclude(figures)
}
