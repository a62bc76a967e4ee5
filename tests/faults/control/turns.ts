// Fairness: a writer whose way to the broker is 10 ms longer, each way, than that of two others who write without a
// pause.
// `bun tests/faults/control/turns.ts [--commands 200] [--far 10]`: three processes on a real broker, the far one behind
// a proxy that delays.
import { startKafka } from '../../../infra/kafka/kafka.ts'
import { freePort } from '../../services/gateway.ts'
import { testTopics } from '../../services/kafka.ts'
import { startTcpProxy } from '../../services/tcp-proxy.ts'
import { openRaceLog, type RaceLog, type RaceTask } from '../../state/commit/race-writer.ts'
import { begin, createTenant, openInstance } from '../../state/support.ts'
import { percentiles } from '../oracle.ts'
import { conclude, type Figure, numberArgument } from './figures.ts'

const AIM_MS = 500
const NEAR = ['near-a', 'near-b']
/** Commands that each near writer has under way. */
const AT_ONCE = 5
const WARM = 20
const WRITER = new URL('../../state/commit/race-writer.ts', import.meta.url).pathname

/** A writer that never pauses, in a process of its own. Answers how many of its commands were carried out. */
const near = (name: string, log: RaceLog) => {
  const task: RaceTask = { log, name, commands: Number.MAX_SAFE_INTEGER, atOnce: AT_ONCE }
  const child = Bun.spawn([process.execPath, WRITER, JSON.stringify(task)], { stdin: 'pipe', stdout: 'pipe' })
  const changed = (async () => {
    let count = 0
    for await (const chunk of child.stdout) count += Buffer.from(chunk).toString('latin1').split('"changed"').length - 1
    return count
  })()
  return async () => {
    child.kill('SIGKILL')
    await child.exited
    return changed
  }
}

export const turns = async (commands: number, farMs: number): Promise<readonly Figure[]> => {
  const proxy = await startTcpProxy()
  proxy.delayMs = farMs
  proxy.to = freePort()
  const kafka = await startKafka({ second: { port: proxy.to, advertised: proxy.port } })
  const topics = testTopics(kafka.bootstrap)
  const direct: RaceLog = { adapter: 'kafka', brokers: kafka.bootstrap, topic: await topics.create() }
  const log = openRaceLog(direct)
  await begin(log)
  const farLog = openRaceLog({ ...direct, brokers: [`127.0.0.1:${proxy.port}`] })
  const far = await openInstance('far', farLog)
  const stops: (() => Promise<number>)[] = []
  try {
    await far.live.ready()
    for (const name of NEAR) stops.push(near(name, direct))
    const times: number[] = []
    for (let n = -WARM; n < commands; n++) {
      const sentAt = performance.now()
      await far.queue.commit(createTenant(`far-${n}`))
      if (n >= 0) times.push(performance.now() - sentAt)
    }
    const seconds = times.reduce((sum, ms) => sum + ms, 0) / 1_000
    const others = (await Promise.all(stops.splice(0).map((stop) => stop()))).reduce((sum, count) => sum + count, 0)
    const { p50, p99, max } = percentiles(times)
    const { losses, turns: asked } = far.queue.status()
    const figure =
      `ms p50 ${p50.toFixed(0)}, p99 ${p99.toFixed(0)}, max ${max.toFixed(0)} (aim ${AIM_MS}); ` +
      `its appends lost ${losses} times, it asked for its turn ${asked} times; the others ` +
      `${others} decisions in about ${seconds.toFixed(0)} s`
    const what = `a writer ${farMs} ms farther away, each way, than two that write without a pause`
    return [{ row: 'turns', what, figure, n: times.length, good: max < AIM_MS && others > 0 }]
  } finally {
    for (const stop of stops) await stop()
    await far.close()
    for (const each of [farLog, log]) await each.close()
    topics.close()
    await kafka.stop()
    await proxy.stop()
  }
}

if (import.meta.main) conclude(await turns(numberArgument('commands', 200), numberArgument('far', 10)))
