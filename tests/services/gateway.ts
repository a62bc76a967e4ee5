// A real gateway process for faults, benches and end-to-end tests: `cli.ts start` in a separate folder on a free port.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { commandsOf } from '../../infra/bundle.mjs'
import { MEMORY } from '../../infra/launch.mjs'
import { placesOfPrograms } from '../environment.ts'

const ROOT = join(import.meta.dir, '../..')

export const ADMIN_KEY = 'gw_live_adminadminadminadminadminadminadminadmin'
export const INFERENCE_KEY = 'gw_live_inferinferinferinferinferinferinferinfer'

export interface GatewayOptions {
  /** Contents of gateway.yaml, merged over host, port and data folder. */
  readonly settings?: Readonly<Record<string, unknown>>
  readonly env?: Readonly<Record<string, string>>
  /** Modules that it loads first: clocks and disks that are not what they seem. */
  readonly preload?: readonly string[]
  /** Kept over restarts; a temporary one when absent. */
  readonly folder?: string
  /** The source tree that it runs from: another build. What `npm start` runs here when absent. */
  readonly root?: string
}

export interface GatewayProcess {
  readonly url: string
  readonly folder: string
  readonly pid: number
  /** Of the process that was started last, with its exit code. */
  readonly exited: Promise<number>
  /** The signal that ended it, or null. */
  readonly endedBy: string | null
  /** Everything that it printed so far. */
  output(): string
  /**
   * Resolves with the milliseconds since the last start. Rejects when the process ends or after the limit. `serving`:
   * inference answers; `ready`: /ready is 200.
   */
  until(state: 'serving' | 'ready', limitMs?: number): Promise<number>
  /** Starts it again, in the same folder and on the same port. */
  start(): void
  /** The next start runs from that source tree. */
  use(root: string): void
  /**
   * Sends a signal, waits for the end and returns the exit code. `SIGKILL` leaves child processes running, as a crash
   * does.
   */
  end(signal?: NodeJS.Signals): Promise<number>
  /** Ends it and removes its folder. */
  remove(): Promise<void>
  request(
    path: string,
    init?: {
      method?: string
      body?: unknown
      key?: string | null
      headers?: Record<string, string>
      signal?: AbortSignal
    },
  ): Promise<Response>
}

/**
 * Under `bun test` other tests keep the cores busy: a gateway that refuses because its event loop is late would answer
 * 429 for a reason outside the test. The rigs keep the default.
 */
const PATIENT = process.env.NODE_ENV === 'test' ? { max_event_loop_delay: 'off' } : {}

/**
 * Nothing balances load here, so a stop need not wait until it is noticed. A variable: builds that do not have the
 * setting only warn of it. Empty, the default of the settings holds.
 */
const NO_GRACE = { GATEWAY_SERVER_SHUTDOWN_GRACE: '0s' }

let made: string | null = null
/** What `npm start` runs. */
const shipped = (): string => {
  made ??= commandsOf(ROOT, process.execPath, Bun.version)
  return made
}

/** A port that no process listens on now. */
export const freePort = (): number => {
  const listener = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
  const { port } = listener
  listener.stop(true)
  return port
}

export const startGateway = (options: GatewayOptions = {}): GatewayProcess => {
  const folder = options.folder ?? mkdtempSync(join(tmpdir(), 'gatelog-'))
  mkdirSync(folder, { recursive: true })
  const port = freePort()
  const url = `http://127.0.0.1:${port}`
  const { server, data, ...rest } = (options.settings ?? {}) as { server?: object; data?: object }
  const settings = {
    server: { host: '127.0.0.1', port, ...PATIENT, ...server },
    data: { dir: join(folder, 'data'), ...data },
    ...rest,
  }
  writeFileSync(join(folder, 'gateway.yaml'), JSON.stringify(settings, null, 2))
  let printed = ''
  let startedAt = 0
  let root = options.root ?? null
  let child: ReturnType<typeof launch>
  const preload = (options.preload ?? []).flatMap((module) => ['--preload', module])

  const launch = () => {
    const program = root === null ? shipped() : join(root, 'src/commands/cli.ts')
    return Bun.spawn([process.execPath, ...preload, program, 'start'], {
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'pipe',
      cwd: folder,
      env: {
        ...placesOfPrograms(),
        BUN_CONFIG_MAX_HTTP_REQUESTS: '4096',
        ...MEMORY,
        ...NO_GRACE,
        GATEWAY_CONFIG: join(folder, 'gateway.yaml'),
        GATEWAY_BOOTSTRAP_ADMIN_KEY: ADMIN_KEY,
        GATEWAY_BOOTSTRAP_INFERENCE_KEY: INFERENCE_KEY,
        ...options.env,
      },
    })
  }
  const collect = async (stream: ReadableStream<Uint8Array>) => {
    const decoder = new TextDecoder()
    for await (const bytes of stream) printed = (printed + decoder.decode(bytes, { stream: true })).slice(-200_000)
  }
  const start = () => {
    startedAt = performance.now()
    child = launch()
    void collect(child.stdout)
    void collect(child.stderr)
  }
  const request: GatewayProcess['request'] = (path, init = {}) =>
    fetch(url + path, {
      method: init.method ?? (init.body === undefined ? 'GET' : 'POST'),
      headers: {
        ...(init.key === null
          ? {}
          : { Authorization: `Bearer ${init.key ?? (path.startsWith('/admin') ? ADMIN_KEY : INFERENCE_KEY)}` }),
        ...(init.body === undefined ? {} : { 'Content-Type': 'application/json' }),
        ...init.headers,
      },
      body: init.body === undefined ? undefined : JSON.stringify(init.body),
      signal: init.signal,
    })
  const until: GatewayProcess['until'] = async (state, limitMs = 30_000) => {
    const path = state === 'ready' ? '/ready' : '/v1/models'
    while (performance.now() - startedAt < limitMs) {
      if (child.exitCode !== null)
        throw new Error(`the gateway ended with ${child.exitCode}:\n${printed.slice(-2_000)}`)
      const answer = await request(path, { signal: AbortSignal.timeout(2_000) }).catch(() => null)
      if (answer?.ok) return performance.now() - startedAt
      await Bun.sleep(10)
    }
    throw new Error(`the gateway was not ${state} within ${limitMs} ms:\n${printed.slice(-2_000)}`)
  }
  const end: GatewayProcess['end'] = async (signal = 'SIGTERM') => {
    child.kill(signal)
    return child.exited
  }
  start()
  return {
    url,
    folder,
    get pid() {
      return child.pid
    },
    get exited() {
      return child.exited
    },
    get endedBy() {
      return child.signalCode as string | null
    },
    output: () => printed,
    until,
    start,
    use(next) {
      root = next
    },
    end,
    request,
    async remove() {
      if (child.exitCode === null) await end()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
