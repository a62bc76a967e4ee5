#!/usr/bin/env bun
// The command line. Each command returns an exit code; an error that the user can correct is one line on stderr and
// exit code 1.
import { macKeyBeside } from '../composition/installation.ts'
import {
  isKafka,
  loadSettings,
  logSettings,
  openDiagnostics,
  prepareDataDir,
  requireInstallation,
} from '../composition/settings.ts'
import { settingsTable } from '../config/page.ts'
import { printed } from '../config/schema.ts'
import { newId } from '../lib/crypto/ids.ts'
import { ConfigError } from '../lib/settings/settings.ts'
import { nearest } from '../lib/text/nearest.ts'
import { openLog } from '../log/open-log.ts'
import { LogReplaced, LogUnavailable, TopicMisconfigured } from '../log/port.ts'
import { VERSION } from '../main.ts'
import { MasterKeyMissing } from '../state/data-keys/master-keys.ts'
import { ControlLogRefused } from '../state/live/guards.ts'
import { BootstrapRefused } from '../upkeep/bootstrap/keys.ts'
import { endWithParent } from '../upkeep/postgres/child-process.ts'
import { exportCommand } from './export.ts'
import { readFailpoint } from './failpoints.ts'
import { keysCommand } from './keys.ts'
import { logRestoreCommand } from './log.ts'
import { metricsTable } from './metrics.ts'
import { rebuildCommand } from './rebuild.ts'
import { settingsDocsCommand } from './settings-docs.ts'
import { startCommand } from './start.ts'
import { topicDocsCommand } from './topic-docs.ts'
import { topicsCommand } from './topics.ts'
import { verifyCommand } from './verify/verify.ts'
import { workerCommand } from './worker.ts'

const print = (line: string): void => console.log(line)
const complain = (line: string): void => console.error(`gatelog: ${line.replaceAll('\n', ' ')}`)

interface Arguments {
  readonly flags: ReadonlySet<string>
  readonly options: ReadonlyMap<string, string>
  readonly words: readonly string[]
}

interface Command {
  readonly usage: string
  readonly about: string
  /** The flags of the command; others are refused. */
  readonly flags: readonly string[]
  /** Flags with a value: `--name value` or `--name=value`. */
  readonly options?: readonly string[]
  /** At most so many further arguments. */
  readonly words: number
  run(args: Arguments): Promise<number>
}

const COMMANDS: Readonly<Record<string, Command>> = {
  start: {
    usage: 'start',
    about: 'Serve, with a projection worker as a child.',
    flags: ['--sibling'],
    words: 0,
    async run({ flags }) {
      const loaded = loadSettings(process.env)
      const diagnostics = openDiagnostics(loaded.config)
      return startCommand({ loaded, env: process.env, diagnostics, sibling: flags.has('--sibling'), print, complain })
    },
  },
  worker: {
    usage: 'worker',
    about: 'Fold the log into Postgres, as a process of its own.',
    flags: ['--child'],
    words: 0,
    run({ flags }) {
      const isChild = flags.has('--child')
      const work = (opened: Opened) => {
        if (isChild) endWithParent(opened.stop)
        return workerCommand({ ...opened, isChild, worker: `${process.pid}`, complain })
      }
      // A gateway that starts its worker makes the installation at that moment.
      return isChild ? withNewLog('worker', work) : withLog('worker', work)
    },
  },
  rebuild: {
    usage: 'rebuild [read-model...]',
    about: 'Make tables anew from the log, beside those in use; the gateway may be up or down.',
    flags: [],
    words: 16,
    run: ({ words }) => withLog('rebuild', (opened) => rebuildCommand({ ...opened, args: words, print, complain })),
  },
  verify: {
    usage: 'verify',
    about:
      'Recompute the chain and compare the snapshot, the data keys and the read models with it; the gateway may ' +
      'be up or down.',
    flags: [],
    words: 0,
    run: () => withLog('verify', (opened) => verifyCommand({ ...opened, print, complain })),
  },
  export: {
    usage: 'export [--as-of <time|decision>] [--output <file>]',
    about: 'Write the configuration, or that of the past, as a bootstrap section without secrets; up or down.',
    flags: [],
    options: ['--as-of', '--output'],
    words: 0,
    run: ({ options }) =>
      withLog('export', (opened) =>
        exportCommand({
          ...opened,
          asOf: options.get('--as-of') ?? null,
          output: options.get('--output') ?? null,
          nowMs: Date.now,
          write: (text) => Bun.write(Bun.stdout, text),
          complain,
        }),
      ),
  },
  topics: {
    usage: 'topics [--init | --docs]',
    about:
      'Check the topics on Kafka; with --init, make what is missing and start the chain. With --docs, write ' +
      'docs/topics.md and docs/asyncapi.json of this source tree.',
    flags: ['--init', '--docs'],
    words: 0,
    async run({ flags }) {
      if (flags.has('--docs')) return topicDocsCommand({ print, complain })
      const { config } = loadSettings(process.env)
      const newChainId = () => newId('chain')
      return topicsCommand({ config, init: flags.has('--init'), print, complain, nowMs: Date.now, newChainId })
    },
  },
  metrics: {
    usage: 'metrics',
    about: 'Show every metric of /metrics as a Markdown table.',
    flags: [],
    words: 0,
    async run() {
      print(metricsTable())
      return 0
    },
  },
  log: {
    usage: 'log restore [--dry-run]',
    about: 'Append to the control topic what it lost and this data.dir still keeps (the last 10,000 records).',
    flags: ['--dry-run'],
    words: 1,
    async run({ flags, words }) {
      if (words[0] !== 'restore') {
        complain('say what to do with the log: log restore [--dry-run]')
        return 1
      }
      const dryRun = flags.has('--dry-run')
      return withLog('restore', (opened) => logRestoreCommand({ ...opened, dryRun, print, complain }))
    },
  },
  keys: {
    usage: 'keys [status | rotate | retire]',
    about:
      'Show which master key wraps how many keys; wrap all by the current one (made anew in data.dir); forget others.',
    flags: [],
    words: 1,
    run: ({ words }) =>
      withLog('keys', (opened) => keysCommand({ ...opened, action: words[0] ?? 'status', print, complain })),
  },
  config: {
    usage: 'config --print | --table | --docs',
    about:
      'Show the effective settings and where each comes from (secrets redacted), or all settings as a Markdown ' +
      'table. With --docs, write docs/settings.md of this source tree.',
    flags: ['--print', '--table', '--docs'],
    words: 0,
    async run({ flags }) {
      if (flags.has('--docs')) return settingsDocsCommand({ print })
      if (flags.has('--table')) print(settingsTable())
      else {
        const loaded = loadSettings(process.env)
        print(printed(loaded))
        for (const warning of loaded.warnings) complain(`warning: ${warning}`)
      }
      return 0
    },
  },
}

type Opened = ReturnType<typeof openAll> & { macKey: Uint8Array }

/**
 * For commands that read the log beside the gateway, where there is one: settings, master key, log, and a signal that a
 * stop aborts.
 */
const withLog = async (use: string, run: (opened: Opened) => Promise<number>): Promise<number> => {
  requireInstallation(loadSettings(process.env).config)
  return withNewLog(use, run)
}

const withNewLog = async (use: string, run: (opened: Opened) => Promise<number>): Promise<number> => {
  const opened = openAll(use)
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, opened.stop)
  try {
    const macKey = await macKeyBeside({ ...opened, waits: use === 'worker' })
    return await run({ ...opened, macKey })
  } finally {
    await opened.log.close()
  }
}

const openAll = (use: string) => {
  const { config } = loadSettings(process.env)
  // On Kafka a command may keep nothing here.
  prepareDataDir(config, isKafka(config) ? 'read' : 'write')
  const stopping = new AbortController()
  return {
    config,
    log: openLog(logSettings(config, use)),
    diagnostics: openDiagnostics(config),
    signal: stopping.signal,
    stop: () => stopping.abort(),
  }
}

const help = (): string => {
  const rows = Object.values(COMMANDS)
  const width = Math.max(...rows.map(({ usage }) => usage.length))
  const lines = rows.map(({ usage, about }) => `  ${usage.padEnd(width)}  ${about}`)
  return [
    `gatelog ${VERSION}: a model gateway whose log is its source of truth.`,
    '',
    'Usage: npm run gateway -- <command>',
    '',
    ...lines,
    '',
    'Settings: gateway.yaml (or GATEWAY_CONFIG=path) and GATEWAY_<SECTION>_<KEY>; docs/settings.md lists them.',
  ].join('\n')
}

const main = async ([name, ...rest]: readonly string[]): Promise<number> => {
  if (name === undefined || name === '--help' || name === '-h' || name === 'help') {
    print(help())
    return name === undefined ? 1 : 0
  }
  if (name === '--version' || name === '-v') {
    print(VERSION)
    return 0
  }
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined
  if (command === undefined) {
    const near = nearest(name, Object.keys(COMMANDS))
    complain(
      `unknown command "${name}"${near === null ? '.' : `; did you mean "${near}"?`} ` +
        `Commands: ${Object.keys(COMMANDS).join(', ')}.`,
    )
    return 1
  }
  if (rest.includes('--help') || rest.includes('-h')) {
    print(`${command.usage}: ${command.about}`)
    return 0
  }
  const parsed = parse(rest, command)
  if (typeof parsed === 'string') {
    complain(`${parsed}: ${command.usage}`)
    return 1
  }
  const odd = [...parsed.flags].find((flag) => !command.flags.includes(flag)) ?? parsed.words[command.words]
  if (odd !== undefined) {
    complain(`"${odd}" is nothing that ${name} takes: ${command.usage}`)
    return 1
  }
  readFailpoint(process.env)
  return command.run(parsed)
}

/** The arguments after the name of a command, or what is wrong with them. */
const parse = (rest: readonly string[], { options: known = [] }: Command): Arguments | string => {
  const [flags, options, words] = [new Set<string>(), new Map<string, string>(), [] as string[]]
  for (let at = 0; at < rest.length; at++) {
    const arg = rest[at]!
    const [, flag = arg, joined] = /^(--[^=]+)=(.*)$/s.exec(arg) ?? []
    if (!known.includes(flag)) {
      if (arg.startsWith('-')) flags.add(arg)
      else words.push(arg)
      continue
    }
    const value = joined ?? rest[++at]
    if (value === undefined || value === '') return `${flag} needs a value`
    options.set(flag, value)
  }
  return { flags, options, words }
}

const EXPECTED = [
  ConfigError,
  BootstrapRefused,
  ControlLogRefused,
  MasterKeyMissing,
  TopicMisconfigured,
  LogReplaced,
  LogUnavailable,
]

/** An error that the user can correct is one line; anything else is a fault of ours, with its stack for the report. */
const fail = (error: unknown): number => {
  if (EXPECTED.some((kind) => error instanceof kind)) complain((error as Error).message)
  else console.error(`gatelog: unexpected failure, please report it: ${error instanceof Error ? error.stack : error}`)
  return 1
}

process.exit(await main(process.argv.slice(2)).catch(fail))
