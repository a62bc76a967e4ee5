// `gateway start`: one gateway process, its siblings on the same port, signals, and the output of the terminal.

import { ReportedByChild } from '../composition/analytics.ts'
import type { Environment } from '../composition/settings.ts'
import { cleartextPasswords } from '../config/cleartext.ts'
import { type LoadedConfig, settingMs, shutdownGraceMs } from '../config/schema.ts'
import { ownModule } from '../lib/own-files.ts'
import type { Diagnostics } from '../lib/process/diagnostics.ts'
import { type Gateway, startGateway } from '../main.ts'
import { ADMIN_KEY_NAME, INFERENCE_KEY_NAME } from '../upkeep/bootstrap/keys.ts'
import type { SeedReport } from '../upkeep/bootstrap/step.ts'
import { type ChildProcess, endWithParent, superviseChild } from '../upkeep/postgres/child-process.ts'

export interface StartCommand {
  readonly loaded: LoadedConfig
  readonly env: Environment
  readonly diagnostics: Diagnostics
  /** Started by the first process of this installation to share its port. */
  readonly sibling: boolean
  readonly print: (line: string) => void
  /** One line on stderr. */
  readonly complain: (line: string) => void
}

/**
 * A terminal sends SIGINT to the whole process group and npm sends it again: a second signal within this time counts as
 * the same.
 */
const SAME_SIGNAL_MS = 500
/** What the stop of a sibling may take beyond its drain. */
const SIBLING_STOP_MS = 10_000
const ADMIN_VARIABLE = 'GATEWAY_BOOTSTRAP_ADMIN_KEY'
const INFERENCE_VARIABLE = 'GATEWAY_BOOTSTRAP_INFERENCE_KEY'
const SIGNALS = ['SIGINT', 'SIGTERM'] as const

/** Serves until a stop is requested. Throws what prevents a start. The exit code: 0 after a requested stop. */
export const startCommand = async (command: StartCommand): Promise<number> => {
  const { loaded, env, diagnostics, sibling, complain } = command
  const { config } = loaded
  for (const warning of sibling ? [] : loaded.warnings) diagnostics.warn('setting_ignored', { warning })
  for (const sent of sibling ? [] : cleartextPasswords(config)) diagnostics.warn('password_in_cleartext', { ...sent })
  const ended = Promise.withResolvers<number>()
  let skipGrace = () => false
  const stopping = new AbortController()
  const stop = () => {
    stopping.abort()
    ended.resolve(0)
  }
  const stopSignals = onStopSignal({ stop, skipGrace: () => skipGrace() })
  let isOrphan = false
  if (sibling) {
    endWithParent(() => {
      isOrphan = true
      skipGrace()
      stop()
    })
  }
  let refused = false
  const onRefused = (error: unknown) => {
    if (refused) return // the first reason is reported; others follow from it
    refused = true
    if (!(error instanceof ReportedByChild)) complain(error instanceof Error ? error.message : String(error))
    ended.resolve(1)
  }
  const gateway = await startGateway({
    config,
    env,
    diagnostics,
    primary: !sibling,
    signal: stopping.signal,
    onRefused,
  })
  warnOfLimit(env, diagnostics)
  const siblings = sibling ? [] : startSiblings(config.server.processes - 1, command)
  if (gateway.seeded !== null) {
    // reported by onRefused
    void gateway.seeded.then((report) => announce(gateway, report, command)).catch(() => undefined)
  }
  skipGrace = () => {
    const skipped = gateway.skipGrace()
    if (skipped) for (const each of siblings) each.signal('SIGTERM')
    return skipped
  }
  const code = await ended.promise
  if (code !== 0 || isOrphan) skipGrace() // no operator waits for load balancers
  diagnostics.debug('stopping', { code })
  await Promise.all([gateway.stop(), ...siblings.map((each) => each.stop())])
  stopSignals()
  return code
}

const startSiblings = (count: number, { loaded, env, diagnostics }: StartCommand): ChildProcess[] => {
  const command = [process.execPath, ownModule('src/commands/cli'), 'start', '--sibling']
  const { config } = loaded
  const stopMs = shutdownGraceMs(config) + (settingMs(config.server.drain) ?? 0) + SIBLING_STOP_MS
  return Array.from({ length: count }, () => superviseChild({ name: 'sibling', command, env, diagnostics, stopMs }))
}

/**
 * The first signal requests an orderly stop. A later one skips the grace in which requests are still taken, or, once
 * that is over, ends the process at once. Returns how to stop listening.
 */
const onStopSignal = ({ stop, skipGrace }: { stop(): void; skipGrace(): boolean }): (() => void) => {
  let lastAt: number | null = null
  const onSignal = () => {
    const now = performance.now()
    if (lastAt !== null && now - lastAt <= SAME_SIGNAL_MS) return
    const isFirst = lastAt === null
    lastAt = now
    if (isFirst) stop()
    else if (!skipGrace()) process.exit(130)
  }
  for (const signal of SIGNALS) process.on(signal, onSignal)
  return () => {
    for (const signal of SIGNALS) process.off(signal, onSignal)
  }
}

/** The runtime reads this variable when it starts; the launcher and the image set it. */
const warnOfLimit = (env: Environment, diagnostics: Diagnostics): void => {
  if (env.BUN_CONFIG_MAX_HTTP_REQUESTS !== undefined) return
  diagnostics.warn('http_limit', {
    upstream_requests_at_once: 256,
    mend: 'start with npm start, or set BUN_CONFIG_MAX_HTTP_REQUESTS',
  })
}

const announce = (gateway: Gateway, { minted, working }: SeedReport, { loaded, print }: StartCommand): void => {
  const keyOf = (name: string) => minted.find((key) => key.name === name)?.plaintext
  print(`Gatelog is listening on ${gateway.url}`)
  if (minted.length > 0) {
    const width = Math.max(...minted.map(({ name }) => name.length))
    print('')
    for (const { name, plaintext } of minted) print(`  ${name.padEnd(width)}  ${plaintext}`)
    print('\nThese keys are shown this once; only their digests are kept.')
  }
  const setup = gateway.setupLink()
  if (setup !== null)
    print(`\nThe first operator is made once, here: POST {"username", "password", "confirm"}\n  ${setup}`)
  // The key of a variable may have been rotated, or revoked.
  const scopesOf = (name: string) => working.find(({ variable }) => variable === name)?.scopes
  const mayCall = scopesOf(INFERENCE_VARIABLE)?.some((scope) => scope === 'inference' || scope === '*') === true
  const key = keyOf(INFERENCE_KEY_NAME) ?? (mayCall ? `$${INFERENCE_VARIABLE}` : undefined)
  const model = gateway.someModel()
  const header = loaded.config.auth.header_name
  if (key !== undefined && model !== null) print(`\nTry it:\n${curlLine(gateway.url, header, key, model)}\n`)
  else if (keyOf(ADMIN_KEY_NAME) === undefined && scopesOf(ADMIN_VARIABLE) === undefined) {
    print(`The keys were shown at the first start. Lost? Start once with ${ADMIN_VARIABLE} set to a new one.`)
  }
}

/** One line that works when pasted into a shell. */
const curlLine = (url: string, header: string, key: string, model: string): string => {
  const body = JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello' }] }).replaceAll("'", "'\\''")
  const credential = header.toLowerCase() === 'authorization' ? `${header}: Bearer ${key}` : `${header}: ${key}`
  return `curl ${url}/v1/chat/completions -H "${credential}" -H "Content-Type: application/json" -d '${body}'`
}
