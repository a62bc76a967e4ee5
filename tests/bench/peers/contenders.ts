// Starts the peers, each alone on the gateway's core, with the settings that its documentation recommends for speed: no
// logs, no database, one process.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { eventually } from '../../services/eventually.ts'
import { freePort } from '../../services/gateway.ts'
import { benchJob, type Contender, pinned } from '../contenders.ts'
import { installed, NotInstalled } from './installed.ts'

export const VERSIONS = { portkey: '1.15.2', litellm: '1.106.0' } as const

interface Started {
  readonly name: string
  readonly command: readonly string[]
  readonly environment?: Readonly<Record<string, string>>
  readonly headers?: Readonly<Record<string, string>>
  readonly port: number
  readonly cleanUp?: () => void
}

const START_MS = 90_000

const SAID_CHARS = 2_000
/**
 * Returns a function that gives the end of a program's output at any time. The output is read all along and only its
 * end is kept: one of the peers writes a page for each stream that it cannot answer.
 */
const lastOf = (stream: ReadableStream<Uint8Array>): (() => string) => {
  const decoder = new TextDecoder()
  let said = ''
  const read = async () => {
    for await (const bytes of stream) said = (said + decoder.decode(bytes, { stream: true })).slice(-SAID_CHARS)
  }
  void read()
  return () => said.trim()
}

/** Starts it and waits for its first right answer. */
const started = async (peer: Started): Promise<Contender> => {
  const child = pinned(0, [...peer.command], peer.environment, 'pipe')
  void new Response(child.stdout).text()
  const said = lastOf(child.stderr as ReadableStream<Uint8Array>)
  const stop = async () => {
    child.kill('SIGKILL')
    await child.exited
    peer.cleanUp?.()
  }
  const contender = { name: peer.name, port: peer.port, pid: child.pid, headers: peer.headers ?? {}, stop }
  const { path, body, headers } = benchJob(contender, 'json', 1, 0)
  const ask = () =>
    fetch(`http://127.0.0.1:${peer.port}${path}`, {
      method: 'POST',
      headers: { ...headers, 'Content-Type': 'application/json' },
      body,
    })
      .then(async (answer) => answer.ok && (await answer.text()).includes('chatcmpl-bench'))
      .catch(() => false)
  try {
    await eventually(`${peer.name} answers`, ask, { limitMs: START_MS, everyMs: 100 })
  } catch (error) {
    await stop()
    throw new Error(`${error instanceof Error ? error.message : error}; it said: ${said() || 'nothing'}`)
  }
  return contender
}

export const startPortkey = async (origin: string): Promise<Contender> => {
  const flags = ['--no-audit', '--no-fund', '--ignore-scripts', '--loglevel', 'error']
  const folder = await installed(`portkey-${VERSIONS.portkey}`, [
    ['npm', 'install', '--prefix', '.', ...flags, `@portkey-ai/gateway@${VERSIONS.portkey}`],
  ])
  const port = freePort()
  return await started({
    name: `Portkey ${VERSIONS.portkey}`,
    port,
    command: [
      'node',
      join(folder, 'node_modules/@portkey-ai/gateway/build/start-server.js'),
      '--headless',
      `--port=${port}`,
    ],
    environment: { NODE_ENV: 'production' },
    headers: { Authorization: 'Bearer bench', 'x-portkey-provider': 'openai', 'x-portkey-custom-host': `${origin}/v1` },
  })
}

/** Without one it does not start. */
const LITELLM_KEY = 'sk-benchbenchbenchbenchbenchbenchbenchbench'

export const startLiteLlm = async (origin: string): Promise<Contender> => {
  const folder = await installed(`litellm-${VERSIONS.litellm}`, [
    ['python3', '-m', 'venv', 'venv'],
    [
      './venv/bin/python',
      '-m',
      'pip',
      'install',
      '-q',
      '--disable-pip-version-check',
      `litellm[proxy]==${VERSIONS.litellm}`,
    ],
  ])
  const port = freePort()
  const settings = mkdtempSync(join(tmpdir(), 'gatelog-bench-litellm-'))
  const model = { model: 'openai/bench-model', api_base: `${origin}/v1`, api_key: 'bench' }
  const config = {
    model_list: [{ model_name: 'bench-model', litellm_params: model }],
    litellm_settings: { telemetry: false },
    general_settings: { master_key: LITELLM_KEY },
  }
  writeFileSync(join(settings, 'config.yaml'), JSON.stringify(config))
  return await started({
    name: `LiteLLM ${VERSIONS.litellm}`,
    port,
    command: [
      join(folder, 'venv/bin/litellm'),
      ...[
        '--config',
        join(settings, 'config.yaml'),
        '--host',
        '127.0.0.1',
        '--port',
        String(port),
        '--num_workers',
        '1',
      ],
    ],
    headers: { Authorization: `Bearer ${LITELLM_KEY}` },
    environment: { LITELLM_LOCAL_MODEL_COST_MAP: 'True', LITELLM_LOG: 'ERROR' },
    cleanUp: () => rmSync(settings, { recursive: true, force: true }),
  })
}

export const startNginx = async (origin: string): Promise<Contender> => {
  if (Bun.which('nginx') === null) throw new NotInstalled('nginx is not on this machine')
  const port = freePort()
  const folder = mkdtempSync(join(tmpdir(), 'gatelog-bench-nginx-'))
  const lines = [
    'daemon off; master_process off; worker_processes 1; error_log stderr crit;',
    `pid ${folder}/nginx.pid;`,
    'events { worker_connections 4096; }',
    // By itself it closes a connection after a thousand requests.
    'http { access_log off; client_body_buffer_size 64k; keepalive_requests 1000000000;',
    `upstream up { server ${new URL(origin).host}; keepalive 512; keepalive_requests 1000000000; }`,
    `server { listen 127.0.0.1:${port}; location / { proxy_pass http://up; proxy_http_version 1.1;`,
    `proxy_set_header Connection ""; proxy_buffering off; } }`,
    ...['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path ${folder}/${name};`),
    '}',
  ]
  writeFileSync(join(folder, 'nginx.conf'), lines.join('\n'))
  return await started({
    name: 'nginx',
    port,
    command: ['nginx', '-p', folder, '-c', join(folder, 'nginx.conf')],
    cleanUp: () => rmSync(folder, { recursive: true, force: true }),
  })
}

/** The version and commit that the program reports, as in `dev a26fbd1`, where it was built with them. */
const goModelVersion = (program: string): string => {
  const said = Bun.spawnSync([program, '--version'], { stderr: 'ignore' }).stdout.toString()
  const [, version, commit] = /gomodel (\S+) \(commit: ([^,]+)/.exec(said) ?? []
  return version === undefined ? 'of an unknown version' : `${version} ${commit}`
}

/**
 * Built from its sources by the user (`make build` names the commit), since it is in no registry.
 * https://github.com/ENTERPILOT/GoModel
 */
export const startGoModel = async (origin: string): Promise<Contender> => {
  const program = Bun.which('gomodel')
  if (program === null) throw new NotInstalled('gomodel is not on this machine')
  const port = freePort()
  const folder = mkdtempSync(join(tmpdir(), 'gatelog-bench-gomodel-'))
  const config = {
    server: { port: String(port), master_key: GOMODEL_KEY },
    usage: { enabled: false },
    logging: { enabled: false },
    providers: { bench: { type: 'openai', base_url: `${origin}/v1`, api_key: 'bench' } },
  }
  mkdirSync(join(folder, 'config'))
  writeFileSync(join(folder, 'config', 'config.yaml'), JSON.stringify(config))
  return await started({
    name: `GoModel ${goModelVersion(program)}`,
    port,
    // It reads its settings from where it is started.
    command: ['env', '-C', folder, program],
    environment: { LOG_LEVEL: 'error' },
    headers: { Authorization: `Bearer ${GOMODEL_KEY}` },
    cleanUp: () => rmSync(folder, { recursive: true, force: true }),
  })
}
const GOMODEL_KEY = 'bench-bench-bench'
