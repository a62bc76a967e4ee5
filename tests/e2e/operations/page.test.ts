// docs/operations.md: every `sh` block runs, in order, and prints what the page says; every alert of the rules is
// explained.
// `shell` blocks are checked for syntax only: systemd, Docker, `git pull` and `pg_dump`, which the embedded Postgres
// does not have.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { chmodSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Kafka, startKafka } from '../../../infra/kafka/kafka.ts'
import { settingsTable } from '../../../src/config/page.ts'
import { CONTROL } from '../../../src/state/fold.ts'
import { MASTER_KEY } from '../../services/cluster.ts'
import { eventually } from '../../services/eventually.ts'
import { ADMIN_KEY, freePort, INFERENCE_KEY } from '../../services/gateway.ts'
import { testTopics } from '../../services/kafka.ts'
import { sharedPostgres, type TestDatabase } from '../../services/postgres.ts'
import { childrenOf } from '../started.ts'
import { blocksOf, headingsOf, missingLines, type OperatorShell, openShell, type PageBlock } from './page.ts'

const ROOT = join(import.meta.dir, '../../..')
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')
const PAGE = read('docs/operations.md')
const BLOCKS = blocksOf(PAGE)
/** What every other block needs: variables and functions. */
const DEFINITIONS = BLOCKS.find(({ language }) => language === 'sh')!
const BLOCK_LIMIT_MS = 300_000

const commandsOf = (language: 'sh' | 'sh kafka') =>
  BLOCKS.flatMap((block, at) =>
    block.language !== language || block === DEFINITIONS
      ? []
      : [[`${block.section}, line ${block.line}`, block, BLOCKS[at + 1]!] as const],
  )

/** A model that no command of the page requests: the budget is the incident's own. */
const LEASED = 'sandbox-slow-50'

/** A temporary folder; nothing is made before `prepare`. */
const folderOf = (name: string): string => join(tmpdir(), `gatelog-${name}-${Bun.randomUUIDv7()}`)

const prepare = (folder: string): void => {
  mkdirSync(folder)
  // Under root, the account of Postgres has to enter the folder. Otherwise the cluster lies elsewhere, and in no backup
  // of the data folder.
  chmodSync(folder, 0o755)
  writeFileSync(join(folder, 'gateway.yaml'), '{}\n')
}

/** A clean environment: settings of the gateway alone, in temporary folders, on free ports. */
const environment = (folder: string) => ({
  GATEWAY_CONFIG: join(folder, 'gateway.yaml'), // never that of the clone
  GATEWAY_DATA_DIR: join(folder, 'data'),
  GATEWAY_SERVER_PORT: String(freePort()),
  GATEWAY_SERVER_MAX_EVENT_LOOP_DELAY: 'off', // beside other tests its event loop is late
  GATEWAY_BOOTSTRAP_ADMIN_KEY: ADMIN_KEY,
  GATEWAY_BOOTSTRAP_INFERENCE_KEY: INFERENCE_KEY,
  BACKUP_DIR: join(folder, 'backup'),
})

const runBlock = async (shell: OperatorShell, block: PageBlock, expected: PageBlock): Promise<void> => {
  const printed = await shell.run(block.text, `line-${block.line}`)
  const missing = missingLines(expected.text, printed)
  expect([missing, missing.length === 0 ? '' : printed]).toEqual([[], ''])
}

describe('the page', () => {
  test('has what to expect behind every command, and only blocks that are run, checked or shown', () => {
    const known = ['sh', 'sh kafka', 'shell', 'text']
    expect(BLOCKS.filter(({ language }) => !known.includes(language)).map(({ line }) => line)).toEqual([])
    const blind = [...commandsOf('sh'), ...commandsOf('sh kafka')].filter(
      ([, , next]) => next?.language !== 'text' || next.text === '',
    )
    expect(blind.map(([name]) => name)).toEqual([])
  })

  test('explains every alert of the rules, and no other', () => {
    const rules = Bun.YAML.parse(read('infra/prometheus/gatelog-rules.yml')) as {
      groups: { rules: { alert: string; labels: { severity: string } }[] }[]
    }
    const alerts = rules.groups.flatMap((group) => group.rules)
    const explained = headingsOf(PAGE).filter((heading) => heading.startsWith('Gatelog') && !heading.includes(' '))
    expect(explained.toSorted()).toEqual(alerts.map(({ alert }) => alert).toSorted())
    for (const { alert, labels } of alerts)
      expect(PAGE.toLowerCase()).toContain(`### ${alert.toLowerCase()}\n\n${labels.severity}.`)
  })

  test('has commands without errors of syntax where they cannot be run here', () => {
    for (const { text, line } of BLOCKS.filter(({ language }) => language === 'shell')) {
      const { exitCode, stderr } = Bun.spawnSync(['bash', '-n', '-c', text])
      expect([line, exitCode, stderr.toString()]).toEqual([line, 0, ''])
    }
  })

  test('starts containers of a file that can be read, with time to drain', () => {
    const { services } = Bun.YAML.parse(read('infra/compose.yaml')) as {
      services: Record<string, { build?: { dockerfile: string }; stop_grace_period?: string; volumes?: string[] }>
    }
    for (const name of ['gateway-1', 'gateway-2']) {
      expect(services[name]).toMatchObject({ build: { dockerfile: 'infra/Dockerfile' }, stop_grace_period: '60s' })
      expect(services[name]!.volumes).toEqual([`${name}:/data`])
    }
  })

  test('names metrics and settings that exist', () => {
    const metrics = new Set([...read('docs/metrics.md').matchAll(/`(gateway_[a-z_]+)`/g)].map(([, name]) => name!))
    const settings = new Set([...settingsTable().matchAll(/^\| `([a-z_.]+)`/gm)].map(([, name]) => name!))
    const sections = new Set([...settings].map((name) => name.split('.')[0]!))
    const metricsNamed = [...PAGE.matchAll(/`(gateway_[a-z_]+)`/g)].map(([, name]) => name!)
    const settingsNamed = [...PAGE.matchAll(/`([a-z_]+)\.([a-z_.]+)(?=[`:])/g)]
      .filter(([, section]) => sections.has(section!))
      .map(([, section, key]) => `${section}.${key}`)
    expect(metricsNamed.filter((name) => !metrics.has(name))).toEqual([])
    expect(settingsNamed.filter((name) => !settings.has(name))).toEqual([])
    expect([metricsNamed.length > 5, settingsNamed.length > 10]).toEqual([true, true])
  })

  test('has no link to a heading that is not there', () => {
    const slug = (heading: string) =>
      heading
        .toLowerCase()
        .replace(/[^\w\- ]/g, '')
        .replaceAll(' ', '-')
    const anchors = new Set(headingsOf(PAGE).map(slug))
    const linked = [...PAGE.matchAll(/\]\(#([^)]+)\)/g)].map(([, anchor]) => anchor!)
    expect(linked.filter((anchor) => !anchors.has(anchor))).toEqual([])
  })
})

describe('the commands, embedded', () => {
  const folder = folderOf('operations')
  let shell: OperatorShell
  beforeAll(async () => {
    prepare(folder)
    shell = openShell(join(folder, 'scripts'), environment(folder))
    await shell.run(DEFINITIONS.text, 'definitions')
  })
  afterAll(async () => {
    await shell?.close()
    rmSync(folder, { recursive: true, force: true })
  }, 60_000)

  test.each(commandsOf('sh'))('%s', (_, block, expected) => runBlock(shell, block, expected), BLOCK_LIMIT_MS)
})

describe('the commands, on Kafka and Postgres', () => {
  const folder = folderOf('operations-kafka')
  const env = {
    ...environment(folder),
    SECOND_DATA_DIR: join(folder, 'second'),
    SECOND_PORT: String(freePort()),
  }
  const url = `http://127.0.0.1:${env.GATEWAY_SERVER_PORT}`
  const secondUrl = `http://127.0.0.1:${env.SECOND_PORT}`
  let kafka: Kafka
  let database: TestDatabase
  let shell: OperatorShell

  beforeAll(async () => {
    prepare(folder)
    // Its own: the topics have fixed names, and the broker stops and loses a topic on the way.
    kafka = await startKafka({ brokers: 1, dataDir: join(folder, 'kafka') })
    database = await sharedPostgres()
    shell = openShell(join(folder, 'scripts'), {
      ...env,
      GATEWAY_SECURITY_MASTER_KEY: MASTER_KEY,
      GATEWAY_LOG_KAFKA_BROKERS: kafka.bootstrap.join(','),
      GATEWAY_DATABASE_URL: database.url,
    })
    await shell.run(DEFINITIONS.text, 'definitions')
  }, 180_000)
  afterAll(async () => {
    await shell?.close()
    await kafka?.stop()
    await database?.remove()
    rmSync(folder, { recursive: true, force: true })
  }, 120_000)

  const send = async (method: 'POST' | 'PUT', to: string, path: string, body: unknown) => {
    const key = path.startsWith('/admin') ? ADMIN_KEY : INFERENCE_KEY
    const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' }
    const answer = await fetch(to + path, { method, headers, body: JSON.stringify(body) })
    expect([path, answer.status < 300, answer.status < 300 ? '' : await answer.text()]).toEqual([path, true, ''])
  }
  /** The second instance draws a lease of a hard budget and dies with it; then the brokers go. */
  const dieWithLease = async () => {
    await send('PUT', url, '/admin/v1/budgets', {
      scope: { type: 'model', id: LEASED },
      limit_tokens: 1_000_000,
      window: 'lifetime',
    })
    const body = { model: LEASED, messages: [{ role: 'user', content: 'Hello' }] }
    await send('POST', secondUrl, '/v1/chat/completions', body)
    const launcher = Number(await shell.run(`echo "$\{PID[$SECOND_PORT]}"`, 'pid'))
    for (const pid of childrenOf(launcher)) process.kill(pid, 'SIGKILL')
    await shell.run(`wait "$\{PID[$SECOND_PORT]}" || true`, 'killed')
  }
  /** What happens before a section is read. */
  const INCIDENTS: Readonly<Record<string, () => Promise<unknown>>> = {
    'While the brokers are away': async () => {
      await dieWithLease()
      await kafka.broker(0).stop()
      await eventually('the brokers are missed', async () =>
        (await (await fetch(`${url}/ready`)).text()).includes('"log":"degraded'),
      )
    },
    'When the brokers are back': () => kafka.broker(0).restart(),
    'The control topic is lost or cut': async () => {
      const topics = testTopics(kafka.bootstrap)
      await topics.remove(CONTROL)
      topics.close()
    },
  }

  test('every incident is one of the page', () => {
    expect(Object.keys(INCIDENTS).filter((heading) => !headingsOf(PAGE).includes(heading))).toEqual([])
  })

  test.each(commandsOf('sh kafka'))(
    '%s',
    async (_, block, expected) => {
      await INCIDENTS[block.section]?.()
      await runBlock(shell, block, expected)
    },
    BLOCK_LIMIT_MS,
  )
})
