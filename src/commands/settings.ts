// What every command begins with: the settings from file and environment, the master key, the log.
import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'
import { type Config, type LoadedConfig, loadConfig, masterKeyOf } from '../config.ts'
import { checkBootstrap } from '../domain/bootstrap.ts'
import { createDiagnostics, type Diagnostics } from '../lib/diagnostics.ts'
import { codeOf } from '../lib/error-code.ts'
import { readMasterKey, readOrMakeMasterKey } from '../lib/master-key.ts'
import { ConfigError } from '../lib/settings.ts'
import type { LogSettings } from '../log/open-log.ts'

export type Environment = Readonly<Record<string, string | undefined>>

const DEFAULT_FILE = 'gateway.yaml'
const HOUR_MS = 3_600_000

/** `gateway.yaml` of the working directory, or the file that `GATEWAY_CONFIG` names, and the environment. Throws ConfigError. */
export const loadSettings = (env: Environment): LoadedConfig => {
  const loaded = readSettings(env)
  const bootstrap = checkBootstrap(loaded.config.bootstrap)
  if (!bootstrap.ok) throw new ConfigError(`${loaded.origins.get('bootstrap')}: ${bootstrap.error}`)
  return loaded
}

const readSettings = (env: Environment): LoadedConfig => {
  const named = env.GATEWAY_CONFIG
  const path = resolve(named ?? DEFAULT_FILE)
  if (!existsSync(path)) {
    if (named !== undefined)
      throw new ConfigError(`GATEWAY_CONFIG: there is no file ${path}: create it or unset the variable`)
    return loadConfig({ file: null, env })
  }
  try {
    return loadConfig({ file: { name: basename(path), text: readFileSync(path, 'utf8') }, env })
  } catch (error) {
    if (error instanceof ConfigError) throw error
    throw new ConfigError(`${path} cannot be read (${codeOf(error) ?? error}): mend its permissions`)
  }
}

/** One line for each event on stderr, readable on a terminal. */
export const openDiagnostics = ({ diagnostics }: Config): Diagnostics =>
  createDiagnostics({
    level: diagnostics.level,
    readable: process.stderr.isTTY === true,
    write: (line) => process.stderr.write(line),
    nowMs: Date.now,
  })

/** Makes `data.dir`, readable by its owner alone. Throws ConfigError when it cannot be used. */
export const prepareDataDir = ({ data }: Config): void => {
  try {
    mkdirSync(data.dir, { recursive: true, mode: 0o700 })
  } catch (error) {
    throw new ConfigError(
      `data.dir: ${resolve(data.dir)} cannot be made (${codeOf(error)}): mend its permissions or name another`,
    )
  }
}

/**
 * `security.master_key`, else the key file of the data folder. The file is made with the first start only: where there is a log already,
 * another key would read every record in it as forged.
 */
export const masterKeyFor = (config: Config): Uint8Array => {
  const setting = masterKeyOf(config)
  if (setting !== null) return setting
  const path = join(config.data.dir, 'master.key')
  const existing = readMasterKey(path)
  if (existing !== null) return existing
  if (existsSync(join(config.data.dir, 'log'))) {
    throw new ConfigError(
      `${resolve(path)} is missing but the log it belongs to is there: restore it from a backup, or name another data.dir`,
    )
  }
  return readOrMakeMasterKey(path)
}

/** The log that the settings ask for, as plain data. `use` tells the clients of one process apart on the brokers. */
export const logSettings = ({ log, data }: Config, use: string): LogSettings =>
  isKafka({ log })
    ? { adapter: 'kafka', kafka: log.kafka, use }
    : { adapter: 'embedded', dataDir: data.dir, retentionMs: log.retention_hours * HOUR_MS }

export const isKafka = ({ log }: Pick<Config, 'log'>): boolean => log.kafka.brokers.length > 0
