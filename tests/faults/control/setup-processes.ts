// Three processes that race to set up, over and over, each time on a topic of its own; and three gateways asked by HTTP, each time anew on empty topics.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startKafka } from '../../../infra/kafka/kafka.ts'
import { TOPICS } from '../../../src/log/topics.ts'
import { CONTROL, foldAgain } from '../../../src/state/fold.ts'
import { initTopics, kafkaSettings } from '../../services/cluster.ts'
import { type GatewayProcess, startGateway } from '../../services/gateway.ts'
import { testTopics } from '../../services/kafka.ts'
import { openRaceLog, type RaceLog } from '../../state/race-writer.ts'
import { begin, macKey } from '../../state/support.ts'
import type { Figure } from './figures.ts'
import { figureOf, INSTANCES, isRacing, type RoundResult } from './setup.ts'
import type { SetUpOrder, SetUpWord, Standing } from './setup-instance.ts'

/** Rounds under way at once, over the same three processes. */
const AT_ONCE = 6

interface RaceProcess {
  ask(order: SetUpOrder): Promise<Exclude<SetUpWord, { word: 'failed' }>>
  end(): Promise<void>
}

const spawnInstance = (): RaceProcess => {
  const waiting = new Map<number, ReturnType<typeof Promise.withResolvers<SetUpWord>>>()
  const child = Bun.spawn([process.execPath, join(import.meta.dir, 'setup-instance.ts')], {
    stdio: ['ignore', 'inherit', 'inherit'],
    ipc: (word: SetUpWord) => waiting.get(word.round)?.resolve(word),
    onExit: (_, code) => {
      for (const { reject } of waiting.values()) reject(new Error(`an instance ended with ${code}`))
    },
  })
  return {
    async ask(order) {
      const answer = Promise.withResolvers<SetUpWord>()
      waiting.set(order.round, answer)
      child.send(order)
      const word = await answer.promise
      waiting.delete(order.round)
      if (word.word === 'failed') throw new Error(`round ${order.round}: ${word.why}`)
      return word
    },
    async end() {
      child.disconnect()
      await child.exited
    },
  }
}

const raceOnce = async (round: number, processes: readonly RaceProcess[], options: RaceLog): Promise<RoundResult> => {
  const log = openRaceLog(options)
  try {
    await begin(log)
    await Promise.all(processes.map((each, at) => each.ask({ round, order: 'open', name: `ins_${at}`, log: options })))
    const racing = processes.filter((_, at) => isRacing(round, at))
    // The names differ: the latch decides, not the name.
    const tried = await Promise.all(
      racing.map((each, at) => each.ask({ round, order: 'set_up', username: `name ${at}` })),
    )
    const at = await log.end(CONTROL, 0)
    const ended = await Promise.all(processes.map((each) => each.ask({ round, order: 'end', at })))
    const standings = ended.flatMap((word): readonly Standing[] => (word.word === 'ended' ? [word.standing] : []))
    const { state, tip } = await foldAgain(log, macKey, new AbortController().signal)
    const winners = tried.filter((word) => word.word === 'tried' && word.won).length
    return { winners, standings, replay: { tip, digest: state.digest() } }
  } finally {
    await log.close()
  }
}

/** So many rounds over three processes that stay, on a real broker. */
export const raceProcesses = async (rounds: number): Promise<Figure> => {
  const kafka = await startKafka({ brokers: 1 })
  const topics = testTopics(kafka.bootstrap)
  const processes = Array.from({ length: INSTANCES }, spawnInstance)
  try {
    const results: RoundResult[] = []
    let next = 0
    const lane = async () => {
      for (let round = next++; round < rounds; round = next++) {
        const topic = await topics.create()
        results[round] = await raceOnce(round, processes, { adapter: 'kafka', brokers: kafka.bootstrap, topic })
        await topics.remove(topic)
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, lane))
    return figureOf('two or three set-ups at once, three processes, a topic for each round', results)
  } finally {
    await Promise.all(processes.map((each) => each.end()))
    topics.close()
    await kafka.stop()
  }
}

/** Asks all gateways at once, by HTTP. The statuses, and how many of them say afterwards that set-up is closed. */
const askGateways = async (gateways: readonly GatewayProcess[]) => {
  const password = 'correct horse battery staple'
  const statuses = await Promise.all(
    gateways.map(async (gateway, at) => {
      const body = { username: `operator-${at}`, password, confirm: password }
      const answer = await gateway.request('/admin/v1/auth/setup', { body, key: null })
      await answer.arrayBuffer()
      return { status: answer.status, revision: answer.headers.get('X-Gateway-Revision') }
    }),
  )
  const revision = statuses.find(({ status }) => status === 201)?.revision ?? ''
  const headers: Record<string, string> = revision === '' ? {} : { 'X-Gateway-Min-Revision': revision }
  const states = await Promise.all(
    gateways.map(async (gateway) => (await gateway.request('/admin/v1/auth/state', { key: null, headers })).json()),
  )
  const closed = (states as { setup_required: boolean }[]).filter((state) => !state.setup_required).length
  return { statuses: statuses.map(({ status }) => status).sort(), closed }
}

/** The same with whole gateways, hash and session cookie included: three are started for each round, on topics that were made again. */
export const raceGateways = async (rounds: number): Promise<Figure> => {
  const folder = mkdtempSync(join(tmpdir(), 'gatelog-setup-'))
  const kafka = await startKafka({ dataDir: join(folder, 'kafka') })
  const settings = { ...kafkaSettings(kafka.bootstrap), worker: { enabled: false } }
  const topics = testTopics(kafka.bootstrap)
  const flaws: string[] = []
  try {
    for (let round = 0; round < rounds; round++) {
      await initTopics(settings, folder)
      const gateways = Array.from({ length: INSTANCES }, () => startGateway({ settings }))
      try {
        await Promise.all(gateways.map((gateway) => gateway.until('serving', 60_000)))
        const { statuses, closed } = await askGateways(gateways)
        const isRight = statuses.join() === '201,403,403' && closed === INSTANCES
        if (!isRight) flaws.push(`round ${round}: ${statuses.join(' ')}, closed on ${closed}`)
      } finally {
        await Promise.all(gateways.map((gateway) => gateway.remove()))
      }
      for (const { name } of Object.values(TOPICS)) await topics.remove(name)
      rmSync(join(folder, 'topics-data'), { recursive: true, force: true })
    }
  } finally {
    topics.close()
    await kafka.stop()
    rmSync(folder, { recursive: true, force: true })
  }
  return {
    row: 'set-up',
    what: 'POST /admin/v1/auth/setup on three gateways at once, started for each round',
    figure: `one 201, two 403, closed on all three in ${rounds - flaws.length}${flaws.length === 0 ? '' : `; ${flaws[0]}`}`,
    n: rounds,
    good: flaws.length === 0,
  }
}
