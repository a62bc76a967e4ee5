// Three processes race to set up, many times, each time on a separate topic. Three whole gateways do the same by HTTP,
// each time on empty topics.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startKafka } from '../../../../infra/kafka/kafka.ts'
import { TOPICS } from '../../../../src/log/topics.ts'
import { CONTROL, foldAgain } from '../../../../src/state/fold.ts'
import { initTopics, kafkaSettings } from '../../../services/cluster.ts'
import { type GatewayProcess, startGateway } from '../../../services/gateway.ts'
import { testTopics } from '../../../services/kafka.ts'
import { openRaceLog, type RaceLog } from '../../../state/commit/race-writer.ts'
import { begin, macKey } from '../../../state/support.ts'
import type { Figure } from '../figures.ts'
import { figureOf, INSTANCES, isRacing, type RoundResult } from './setup.ts'
import type { SetUpOrder, SetUpWord, Standing } from './setup-instance.ts'

const PASSWORD = 'correct horse battery staple'

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

/**
 * Lets some of the instances set up at once. Returns how many of them report success, and what deviates from the
 * promise.
 */
type Race = (
  round: number,
  urls: readonly (string | null)[],
  processes: readonly RaceProcess[],
) => Promise<Pick<RoundResult, 'winners' | 'unknown' | 'answers'>>

const raceWithin: Race = async (round, _, processes) => {
  const racing = processes.filter((_, at) => isRacing(round, at))
  // The names differ: the latch decides, not the name.
  const tried = await Promise.all(
    racing.map((each, at) => each.ask({ round, order: 'set_up', username: `name ${at}` })),
  )
  return { winners: tried.filter((word) => word.word === 'tried' && word.won).length }
}

const post = (body: unknown): RequestInit => ({
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(body),
})

const FOLDED_WITHIN_MS = 2_000

/**
 * Whether an instance still offers set-up once it has had the time to fold the other's decision. This request comes
 * without credentials, so it cannot wait for a revision.
 */
const asksForSetUp = async (url: string | null): Promise<boolean> => {
  const untilMs = performance.now() + FOLDED_WITHIN_MS
  for (;;) {
    const answer = await fetch(`${url}/state`)
    const { setup_required: isAsked } = (await answer.json()) as { setup_required: boolean }
    if (!isAsked || performance.now() > untilMs) return isAsked
    await Bun.sleep(5)
  }
}

const raceByHttp: Race = async (round, urls) => {
  const racing = urls.filter((_, at) => isRacing(round, at))
  const answers = await Promise.all(
    racing.map((url, at) =>
      fetch(`${url}/setup`, post({ username: `operator-${at}`, password: PASSWORD, confirm: PASSWORD })),
    ),
  )
  const won = answers.filter(({ status }) => status === 201)
  const cookies = answers.filter(({ headers }) => headers.has('set-cookie')).length
  await Promise.all(answers.map((answer) => answer.arrayBuffer()))
  const states = await Promise.all(urls.map((url) => asksForSetUp(url)))
  const statuses = answers.map(({ status }) => status).sort()
  // 504: set-up was tried in time, and its outcome is unknown. The chain shows it.
  const unknown = statuses.includes(504)
  const refused = statuses.every((status) => status === 201 || status === 403 || status === 504)
  const isRight = refused && cookies === won.length && !states.includes(true)
  return {
    winners: won.length === 0 && unknown ? 1 : won.length,
    unknown,
    ...(isRight ? {} : { answers: `${statuses.join(' ')}, ${cookies} cookies, set-up asked for: ${states.join(' ')}` }),
  }
}

const raceOnce = async (
  round: number,
  processes: readonly RaceProcess[],
  options: RaceLog,
  race: Race,
): Promise<RoundResult> => {
  const log = openRaceLog(options)
  const door = race === raceByHttp ? ({ door: true } as const) : {}
  try {
    await begin(log)
    const opened = await Promise.all(
      processes.map((each, at) => each.ask({ round, order: 'open', name: `ins_${at}`, log: options, ...door })),
    )
    const urls = opened.map((word) => (word.word === 'opened' ? word.url : null))
    const raced = await race(round, urls, processes)
    const at = await log.end(CONTROL, 0)
    const ended = await Promise.all(processes.map((each) => each.ask({ round, order: 'end', at })))
    const standings = ended.flatMap((word): readonly Standing[] => (word.word === 'ended' ? [word.standing] : []))
    const { state, tip } = await foldAgain(log, macKey, new AbortController().signal)
    return { ...raced, standings, replay: { tip, digest: state.digest() } }
  } finally {
    await log.close()
  }
}

const raceRounds = async (rounds: number, race: Race): Promise<readonly RoundResult[]> => {
  const kafka = await startKafka({ brokers: 1 })
  const topics = testTopics(kafka.bootstrap)
  const processes = Array.from({ length: INSTANCES }, spawnInstance)
  try {
    const results: RoundResult[] = []
    const keys = await topics.create(1, { 'cleanup.policy': 'compact' })
    let next = 0
    const lane = async () => {
      for (let round = next++; round < rounds; round = next++) {
        const topic = await topics.create()
        const log = { adapter: 'kafka', brokers: kafka.bootstrap, topic, keys } as const
        results[round] = await raceOnce(round, processes, log, race)
        await topics.remove(topic)
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, lane))
    return results
  } finally {
    await Promise.all(processes.map((each) => each.end()))
    topics.close()
    await kafka.stop()
  }
}

/** So many rounds over three processes that stay, on a real broker. */
export const raceProcesses = async (rounds: number): Promise<Figure> =>
  figureOf(
    'two or three set-ups at once, three processes, a topic for each round',
    await raceRounds(rounds, raceWithin),
  )

/** The same by HTTP: the route of a gateway with its hash, its data keys and its cookie. */
export const raceDoors = async (rounds: number): Promise<Figure> =>
  figureOf(
    '`POST /admin/v1/auth/setup` at two or three of three processes at once',
    await raceRounds(rounds, raceByHttp),
  )

/**
 * Sends set-up to all gateways at once, by HTTP. Returns the statuses, and how many gateways report afterwards that
 * set-up is closed.
 */
const askGateways = async (gateways: readonly GatewayProcess[]) => {
  const statuses = await Promise.all(
    gateways.map(async (gateway, at) => {
      const body = { username: `operator-${at}`, password: PASSWORD, confirm: PASSWORD }
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

/**
 * The same race with whole gateways, hash and session cookie included: three are started for each round, on topics that
 * were made again.
 */
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
