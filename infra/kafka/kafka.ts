// A real Kafka broker (or three) without Docker: jars through Maven, KRaft mode, own ports, own data folder.
// As a program: `bun infra/kafka/kafka.ts --brokers 3 --port 9092 --data infra/kafka/.data`; Ctrl-C stops it.
import { mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { kafkaResponds } from '../../src/log/kafka/kafka.ts'

export interface KafkaOptions {
  readonly brokers?: 1 | 3
  /** Folder of the data, which stays at the end; without it, a temporary folder that is removed. */
  readonly dataDir?: string
  /** Client port of each broker; free ones when absent. */
  readonly ports?: readonly number[]
  /** Destination of the brokers' own warnings: `<data>/broker-<n>.log`, or stderr of this process. */
  readonly log?: 'file' | 'inherit'
  /**
   * With one broker: a second port on which it listens, and the port of a proxy that it advertises to clients of that
   * one.
   */
  readonly second?: { readonly port: number; readonly advertised: number }
  /**
   * Runs the controller in a process of its own, so that brokers may end without ending the quorum. Otherwise every
   * broker is a controller too.
   */
  readonly controllerApart?: true
  /** Broker settings in addition to the defaults, or instead of them. */
  readonly properties?: Readonly<Record<string, string>>
}

export interface KafkaBroker {
  readonly port: number
  /** Id of the Java process; changes with `restart`. */
  readonly pid: number
  /** Sends SIGTERM and waits for the end of the process; kills it after 15 s. */
  stop(): Promise<void>
  kill(): Promise<void>
  /** SIGSTOP: the broker accepts connections and never replies. */
  pause(): void
  resume(): void
  /** Starts the broker on the same port and data (stops it first when it runs) and waits until it replies. */
  restart(): Promise<void>
}

export interface Kafka {
  readonly bootstrap: readonly string[]
  /** From 0. */
  broker(index: number): KafkaBroker
  /** Ends every broker; removes the data unless a folder was given. */
  stop(): Promise<void>
}

const HERE = import.meta.dir
const HEAP = '-Xmx512m'
const START_DEADLINE_MS = 90_000
const STOP_DEADLINE_MS = 15_000

/**
 * Starts a cluster and waits until every broker is a member of it and replies. Throws with the tail of the broker's log
 * when one does not.
 */
export const startKafka = async (options: KafkaOptions = {}): Promise<Kafka> => {
  const count = options.brokers ?? 1
  const jars = await fetchJars()
  const data = options.dataDir ?? (await mkdtemp(join(tmpdir(), 'gatelog-kafka-')))
  await mkdir(data, { recursive: true })
  const free = await freePorts(count * 2)
  const ports = Array.from({ length: count }, (_, index) => options.ports?.[index] ?? free[index]!)
  const isApart = options.controllerApart === true
  const voters = isApart
    ? [`${APART}@127.0.0.1:${free[count]}`]
    : ports.map((_, index) => `${index + 1}@127.0.0.1:${free[count + index]}`)
  const brokers = ports.map((port, index) => {
    const controllerPort = isApart ? null : free[count + index]!
    const settings = properties({ node: index + 1, count, port, controllerPort, voters, data })
    const further = secondListener(settings, options.second)
    const all = { ...settings, ...further, ...options.properties }
    return javaBroker({ jars, data, node: index + 1, port, settings: all, options })
  })
  const controller = isApart ? apartController({ jars, data, port: free[count]!, voters, options }) : null
  const bootstrap = ports.map((port) => `127.0.0.1:${port}`)
  const stop = async () => {
    // A temporary cluster keeps no data, so nothing needs flushing. All at once: a quorum that shrinks waits for its
    // missing members.
    await Promise.all(brokers.map((broker) => (options.dataDir === undefined ? broker.kill() : broker.stop())))
    await controller?.kill()
    if (options.dataDir === undefined) await rm(data, { recursive: true, force: true })
  }
  try {
    await Promise.all([...brokers, ...(controller === null ? [] : [controller])].map((each) => each.start()))
    await answers(bootstrap, count)
  } catch (error) {
    await stop()
    throw error
  }
  return { bootstrap, broker: (index) => brokers[index]!, stop }
}

/** The class path; Maven fetches it on first use, and it stays in `target/`. */
const fetchJars = async (): Promise<string> => {
  const folder = join(HERE, 'target', 'lib')
  const done = join(HERE, 'target', `complete-${Bun.hash(await Bun.file(join(HERE, 'pom.xml')).text()).toString(16)}`)
  if (!(await exists(done))) {
    await rm(folder, { recursive: true, force: true })
    const command = ['mvn', '-q', '-B', '-ntp', '-f', join(HERE, 'pom.xml')]
    const goal = ['dependency:copy-dependencies', '-DincludeScope=runtime', `-DoutputDirectory=${folder}`]
    const { exitCode, stdout } = await run([...command, ...goal])
    if (exitCode !== 0) throw new Error(`Maven could not fetch the Kafka jars (is there a network?):\n${stdout}`)
    await writeFile(done, '')
  }
  return join(folder, '*')
}

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  )

const run = async (command: string[]): Promise<{ exitCode: number; stdout: string }> => {
  const child = Bun.spawn(command, { stdout: 'pipe', stderr: 'pipe', stdin: 'ignore' })
  const [out, err, exitCode] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  return { exitCode, stdout: `${out}${err}` }
}

const freePorts = async (count: number): Promise<number[]> => {
  const servers = await Promise.all(
    Array.from({ length: count }, () => {
      const { promise, resolve, reject } = Promise.withResolvers<ReturnType<typeof createServer>>()
      const server = createServer()
      server.once('error', reject)
      server.listen(0, '127.0.0.1', () => resolve(server))
      return promise
    }),
  )
  const ports = servers.map((server) => (server.address() as { port: number }).port)
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))))
  return ports
}

interface NodeSettings {
  readonly node: number
  readonly count: number
  readonly port: number
  /** Null: the broker is no controller. */
  readonly controllerPort: number | null
  readonly voters: readonly string[]
  readonly data: string
}

const properties = ({ node, count, port, controllerPort, voters, data }: NodeSettings): Record<string, string> => ({
  'process.roles': controllerPort === null ? 'broker' : 'broker,controller',
  'node.id': String(node),
  'controller.quorum.voters': voters.join(','),
  'controller.listener.names': 'CONTROLLER',
  listeners:
    controllerPort === null
      ? `PLAINTEXT://127.0.0.1:${port}`
      : `PLAINTEXT://127.0.0.1:${port},CONTROLLER://127.0.0.1:${controllerPort}`,
  'advertised.listeners': `PLAINTEXT://127.0.0.1:${port}`,
  'listener.security.protocol.map': 'CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT',
  'log.dirs': join(data, `node-${node}`),
  'auto.create.topics.enable': 'false',
  'default.replication.factor': String(count),
  'offsets.topic.replication.factor': String(count),
  'offsets.topic.num.partitions': '5',
  'transaction.state.log.replication.factor': String(count),
  'transaction.state.log.min.isr': '1',
  'share.coordinator.state.topic.replication.factor': String(count),
  'group.initial.rebalance.delay.ms': '0',
  // Shorter than the default of 15 s, for tests that wait for compaction.
  'log.cleaner.backoff.ms': '200',
  'num.network.threads': '2',
  'num.io.threads': '3',
  'broker.session.timeout.ms': '4000',
  'broker.heartbeat.interval.ms': '500',
  'controlled.shutdown.max.retries': '1',
})

/** The node that is only a controller. */
const APART = 9

const apartController = (deps: {
  jars: string
  data: string
  port: number
  voters: readonly string[]
  options: KafkaOptions
}): JavaBroker => {
  const settings = {
    'process.roles': 'controller',
    'node.id': String(APART),
    'controller.quorum.voters': deps.voters.join(','),
    'controller.listener.names': 'CONTROLLER',
    listeners: `CONTROLLER://127.0.0.1:${deps.port}`,
    'log.dirs': join(deps.data, `node-${APART}`),
    'broker.session.timeout.ms': '4000',
  }
  return javaBroker({ ...deps, node: APART, settings })
}

const secondListener = (settings: Record<string, string>, second: KafkaOptions['second']): Record<string, string> =>
  second === undefined
    ? {}
    : {
        listeners: `${settings.listeners},SECOND://127.0.0.1:${second.port}`,
        'advertised.listeners': `${settings['advertised.listeners']},SECOND://127.0.0.1:${second.advertised}`,
        'listener.security.protocol.map': `${settings['listener.security.protocol.map']},SECOND:PLAINTEXT`,
        'inter.broker.listener.name': 'PLAINTEXT',
      }

const CLUSTER_ID = 'Z2F0ZWxvZy1rYWZrYS0wMQ'

interface JavaBroker extends KafkaBroker {
  start(): Promise<void>
}

const javaBroker = (deps: {
  jars: string
  data: string
  node: number
  port: number
  settings: Record<string, string>
  options: KafkaOptions
}): JavaBroker => {
  const { jars, data, node, port, settings, options } = deps
  const settingsFile = join(data, `node-${node}.properties`)
  let running: RunningJava | null = null

  const format = async () => {
    if (await exists(join(data, `node-${node}`, 'meta.properties'))) return
    const tool = ['kafka.tools.StorageTool', 'format', '-t', CLUSTER_ID, '-c', settingsFile, '--ignore-formatted']
    const { exitCode, stdout } = await run(['java', ...JVM_FLAGS, '-cp', jars, ...tool])
    if (exitCode !== 0) throw new Error(`formatting broker ${node} failed:\n${stdout}`)
  }
  const start = async () => {
    const lines = Object.entries(settings).map(([name, value]) => `${name}=${value}`)
    await writeFile(settingsFile, `${lines.join('\n')}\n`)
    await format()
    const logTo = options.log === 'inherit' ? 'inherit' : join(data, `broker-${node}.log`)
    const command = ['java', HEAP, ...JVM_FLAGS, '-cp', jars, 'kafka.Kafka', settingsFile]
    running = await runJava(command, { logTo, remove: options.dataDir === undefined ? data : '' })
  }
  const end = async (signal: 'SIGTERM' | 'SIGKILL') => {
    const java = running
    if (java === null) return
    running = null
    if (signal === 'SIGTERM') java.signal('SIGCONT')
    java.signal(signal)
    const timer = setTimeout(() => java.signal('SIGKILL'), STOP_DEADLINE_MS)
    await java.exited
    clearTimeout(timer)
  }
  const own = () => {
    if (running === null) throw new Error(`broker ${node} does not run`)
    return running
  }
  return {
    port,
    get pid() {
      return own().pid
    },
    start,
    stop: () => end('SIGTERM'),
    kill: () => end('SIGKILL'),
    pause: () => own().signal('SIGSTOP'),
    resume: () => own().signal('SIGCONT'),
    async restart() {
      await end('SIGTERM')
      await start()
      await answers([`127.0.0.1:${port}`], 1)
    },
  }
}

// Short starts matter more than peak speed: brokers start often and run briefly on small machines.
const JVM_FLAGS = [
  '-XX:+UseSerialGC',
  '-XX:TieredStopAtLevel=1',
  '-Xshare:auto',
  '-Dorg.slf4j.simpleLogger.defaultLogLevel=warn',
]

interface RunningJava {
  readonly pid: number
  readonly exited: Promise<number>
  signal(name: 'SIGTERM' | 'SIGKILL' | 'SIGSTOP' | 'SIGCONT'): void
}

// The shell holds the other end of a pipe: however this process ends, the broker and its temporary folder end with it.
const WATCHED = `exec 3<&0
"$@" >/dev/null 3<&- &
java=$!
echo $java
(cat <&3 >/dev/null; kill -9 $java 2>/dev/null; [ -n "$GATELOG_REMOVE" ] && rm -rf "$GATELOG_REMOVE") >/dev/null 2>&1 &
watcher=$!
exec 3<&- >/dev/null
wait $java
code=$?
kill $watcher
exit $code`

const runJava = async (
  command: readonly string[],
  { logTo, remove }: { logTo: string; remove: string },
): Promise<RunningJava> => {
  const shell = Bun.spawn(['sh', '-c', WATCHED, 'sh', ...command], {
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: logTo === 'inherit' ? 'inherit' : Bun.file(logTo),
    env: { ...process.env, GATELOG_REMOVE: remove },
  })
  const pid = Number(await new Response(shell.stdout).text())
  if (!Number.isInteger(pid) || pid <= 1) throw new Error('the broker process did not start')
  let ended = false
  const exited = shell.exited.finally(() => {
    ended = true
  })
  return {
    pid,
    exited,
    signal(name) {
      if (!ended) process.kill(pid, name)
    },
  }
}

const answers = async (bootstrap: readonly string[], count: number): Promise<void> => {
  const deadlineMs = Date.now() + START_DEADLINE_MS
  for (const address of bootstrap) {
    while (!(await kafkaResponds(address, count))) {
      if (Date.now() > deadlineMs) throw new Error(`no answer from ${address} after ${START_DEADLINE_MS} ms`)
      await Bun.sleep(100)
    }
  }
}

const main = async (args: readonly string[]): Promise<void> => {
  const value = (name: string) => args[args.indexOf(`--${name}`) + 1]
  const has = (name: string) => args.includes(`--${name}`)
  const brokers = has('brokers') && value('brokers') === '3' ? 3 : 1
  const first = has('port') ? Number(value('port')) : 9092
  const dataDir = has('data') ? value('data') : undefined
  const ports = Array.from({ length: brokers }, (_, index) => first + index)
  const kafka = await startKafka({ brokers, ports, dataDir, log: 'inherit' })
  console.log(`Kafka answers on ${kafka.bootstrap.join(',')}`)
  const stop = () => void kafka.stop().then(() => process.exit(0))
  process.once('SIGINT', stop)
  process.once('SIGTERM', stop)
}

if (import.meta.main) await main(process.argv.slice(2))
