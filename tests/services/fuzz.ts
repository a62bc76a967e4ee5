// schemathesis over a running gateway: requests made from what `/openapi.json` documents for a part of the surface, and
// from what it forbids.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { withoutGatewayVariables } from '../environment.ts'
import { ADMIN_KEY, INFERENCE_KEY, startGateway } from './gateway.ts'
import { sharedPostgres } from './postgres.ts'
import { pythonWith } from './python.ts'
import { type Verified, verified } from './verified.ts'

const VERSION = '4.32.5'
const REQUEST_S = 60
const CHECKS = [
  'status_code_conformance',
  'content_type_conformance',
  'response_headers_conformance',
  'response_schema_conformance',
  'unsupported_method',
  'allow_header_conformance',
  'ignored_auth',
  'every_answer',
]

/** Parts of the surface: the paths, the known facts about them (a module beside this file), and the caller. */
const PARTS = {
  v1: {
    paths: ['--exclude-path-regex', '^/admin/'],
    phases: 'examples,coverage,fuzzing',
    hooks: 'fuzz_inference',
    key: INFERENCE_KEY,
  },
  // Its examples are tried by tests of their own; filling them in for a hundred operations takes the fuzzer long.
  admin: {
    // A stream of what happens has no end that a fuzzer could wait for.
    paths: ['--include-path-regex', '^/admin/(?!v1/requests/stream$)'],
    phases: 'coverage,fuzzing',
    hooks: 'fuzz_admin',
    key: ADMIN_KEY,
  },
} as const
export type FuzzedPart = keyof typeof PARTS
export const isPart = (name: string): name is FuzzedPart => Object.hasOwn(PARTS, name)

export interface Fuzzed {
  readonly requests: number
  readonly outsideEnvelope: number
  readonly unexpected5xx: number
  readonly byStatus: Readonly<Record<string, number>>
  /** Of the answers that were counted above, in words. */
  readonly flaws: readonly string[]
  /** What schemathesis printed; it found nothing wrong when `passed`. */
  readonly output: string
  readonly passed: boolean
}

export interface FuzzedGateway extends Fuzzed {
  /** Whether it still answers at the end, in words. */
  readonly alive: string
  /** The verdict of `gateway verify` afterwards. */
  readonly verified: Verified
}

/** Models that answer well, that call tools, and that answer with JSON. */
const MODELS = ['sandbox-echo', 'sandbox-tools', 'sandbox-json'].map((name) => ({ name }))

/**
 * Fuzzes a gateway in which every request can be answered (with its read models, so that feedback on an unknown request
 * is a plain 404), and verifies its chain.
 */
export const fuzzGateway = async (part: FuzzedPart, seconds: number, seed: number): Promise<FuzzedGateway> => {
  const database = await sharedPostgres()
  const bootstrap = { providers: [{ name: 'sandbox', kind: 'sandbox', models: MODELS }] }
  const gateway = startGateway({ settings: { database: { url: database.url }, bootstrap } })
  try {
    await gateway.until('ready', 60_000)
    const fuzzed = await fuzz(gateway.url, part, seconds, seed)
    const alive = await fetch(`${gateway.url}/health`).then(
      ({ status }) => `answers ${status}`,
      (error: unknown) => `is gone (${String(error)}): ${gateway.output().slice(-2_000)}`,
    )
    return { ...fuzzed, alive, verified: await verified(gateway.folder) }
  } finally {
    await gateway.remove()
    await database.remove()
  }
}

/** Fuzzes for about `seconds`. The same seed makes much the same requests. */
const fuzz = async (url: string, part: FuzzedPart, seconds: number, seed: number): Promise<Fuzzed> => {
  const { paths, phases, hooks, key } = PARTS[part]
  const packages = await pythonWith('schemathesis', VERSION)
  const folder = mkdtempSync(join(tmpdir(), 'gatelog-fuzz-'))
  const countsFile = join(folder, 'counts.json')
  try {
    const command = ['python3', '-m', 'schemathesis.cli', 'run', `${url}/openapi.json`]
    const options = ['--checks', CHECKS.join(','), '--max-time', String(seconds), '--seed', String(seed)]
    // A request that calls a provider may take longer than the fuzzer's own limit of ten seconds.
    options.push('--request-timeout', String(REQUEST_S))
    const more = [
      '--header',
      `Authorization: Bearer ${key}`,
      ...paths,
      '--continue-on-failure',
      '--warnings',
      'off',
      '--no-shrink',
    ]
    const child = Bun.spawn([...command, ...options, ...more, '--phases', phases], {
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'pipe',
      cwd: folder,
      env: {
        ...withoutGatewayVariables(),
        PYTHONPATH: `${packages}:${import.meta.dir}`,
        PYTHONDONTWRITEBYTECODE: '1',
        SCHEMATHESIS_HOOKS: hooks,
        FUZZ_COUNTS: countsFile,
        FUZZ_SEED: String(seed),
      },
    })
    const [out, errors, code] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
      child.exited,
    ])
    return { ...readCounts(countsFile, out + errors), output: out + errors, passed: code === 0 }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const readCounts = (file: string, output: string) => {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch {
    throw new Error(`schemathesis made no request:\n${output}`)
  }
  const { counts, flaws } = JSON.parse(text) as { counts: Record<string, number>; flaws: string[] }
  const byStatus = Object.entries(counts).filter(([name]) => name.startsWith('status '))
  return {
    requests: counts.requests ?? 0,
    outsideEnvelope: counts['outside the envelope'] ?? 0,
    unexpected5xx: counts['unexpected 5xx'] ?? 0,
    byStatus: Object.fromEntries(byStatus.map(([name, count]) => [name.slice(7), count])),
    flaws,
  }
}
