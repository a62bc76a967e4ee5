// The first step of every command: the settings from file and environment, the master key, the log.
import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'
import { type Config, type LoadedConfig, loadConfig, masterKeysOf } from '../config/schema.ts'
import { checkBootstrap } from '../domain/bootstrap.ts'
import { readMasterKeys, readOrMakeMasterKeys } from '../lib/crypto/master-key.ts'
import { createDiagnostics, type Diagnostics } from '../lib/process/diagnostics.ts'
import { codeOf } from '../lib/process/error-code.ts'
import { ConfigError } from '../lib/settings/settings.ts'
import { holdsLog } from '../log/embedded/log.ts'
import type { LogSettings } from '../log/open-log.ts'
import { KINDS, kindOf } from '../providers/kinds.ts'
import { readChainWitness } from '../state/chain-witness.ts'
import { bootstrapProblem } from '../upkeep/bootstrap/check.ts'
import type { KindTable } from '../upkeep/models/kind-table.ts'
import { accessProblem, closeToOthers, type Wanted } from './data-access.ts'

export type Environment = Readonly<Record<string, string | undefined>>

const DEFAULT_FILE = 'gateway.yaml'
const HOUR_MS = 3_600_000

/** The kinds of this build. */
export const KIND_TABLE: KindTable = { resolve: kindOf, names: [...KINDS.keys()] }

/** The kinds with the variables that these settings allow. */
export const kindTableOf = ({ security }: Pick<Config, 'security'>): KindTable => ({
  ...KIND_TABLE,
  envBindings: security.env_bindings,
})

/**
 * `gateway.yaml` of the working directory, or the file that `GATEWAY_CONFIG` names, and the environment. Throws
 * ConfigError.
 */
export const loadSettings = (env: Environment): LoadedConfig => {
  const { placeOf, ...loaded } = readSettings(env)
  const bootstrap = checkBootstrap(loaded.config.bootstrap)
  const problem = bootstrap.ok ? bootstrapProblem(bootstrap.value, kindTableOf(loaded.config)) : bootstrap.error
  // A problem begins with its path.
  if (problem !== null)
    throw new ConfigError(`${placeOf(/^[^\s:]*/.exec(problem)![0]) ?? loaded.origins.get('bootstrap')}: ${problem}`)
  return loaded
}

const readSettings = (env: Environment): ReturnType<typeof loadConfig> => {
  const named = env.GATEWAY_CONFIG || undefined // an empty variable is one that is not set
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
    if (codeOf(error) === 'EISDIR') {
      throw new ConfigError(
        `GATEWAY_CONFIG: ${path} is a folder: name the file in it, ${join(path, DEFAULT_FILE)} perhaps`,
      )
    }
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

const DATA_DIR_MENDS: Readonly<Record<string, string>> = {
  ENOENT: 'no folder can be made there, name another (GATEWAY_DATA_DIR)',
  EEXIST: 'a file has this name, name another (GATEWAY_DATA_DIR)',
  ENOTDIR: 'a file is where one of its folders should be, name another (GATEWAY_DATA_DIR)',
  EROFS: 'the file system is read-only, name another (GATEWAY_DATA_DIR)',
  ENOSPC: 'the disk is full, make room or name another (GATEWAY_DATA_DIR)',
}

/** Makes `data.dir`, readable by its owner alone. Throws ConfigError when it cannot be used as needed. */
export const prepareDataDir = ({ data }: Config, wanted: Wanted = 'write'): void => {
  try {
    mkdirSync(data.dir, { recursive: true, mode: 0o700 })
  } catch (error) {
    const code = codeOf(error) ?? ''
    const mend = DATA_DIR_MENDS[code] ?? 'mend the permissions of the folder above it or name another'
    throw new ConfigError(`data.dir: ${resolve(data.dir)} cannot be made (${code}): ${mend}`)
  }
  requireAccess(data.dir, wanted)
  if (wanted === 'write') closeToOthers(data.dir)
}

const requireAccess = (dir: string, wanted: Wanted): void => {
  const problem = accessProblem(dir, wanted)
  if (problem !== null) throw new ConfigError(`data.dir: ${problem}`)
}

/** The key file of a data folder. */
export const masterKeyFile = ({ data }: Pick<Config, 'data'>): string => join(data.dir, 'master.key')

/**
 * `security.master_key`, else the key file of the data folder: the current key first. The file is made with the first
 * start only: where there is a log already, another key would read every record in it as forged.
 */
export const masterKeysFor = (config: Config): readonly [Uint8Array, ...Uint8Array[]] => {
  const setting = masterKeysOf(config)
  if (setting !== null) return setting
  const path = masterKeyFile(config)
  const existing = readMasterKeys(path)
  if (existing !== null) return existing
  if (holdsLog(config.data.dir)) throw keyIsMissing(path)
  return readOrMakeMasterKeys(path)
}

const keyIsMissing = (path: string): ConfigError =>
  new ConfigError(
    `${resolve(path)} is missing but the log it belongs to is there: restore it from a backup, or name another ` +
      `data.dir`,
  )

/**
 * For a command that works on what a gateway has made: without an installation it has nothing to do, and makes nothing
 * that a later start would take for one, a master key least of all. Throws ConfigError.
 */
export const requireInstallation = (config: Config): void => {
  if (isKafka(config)) return // with a master key of the settings, nothing in data.dir can be missing
  const { dir } = config.data
  requireAccess(dir, 'write') // reading an embedded log writes too: SQLite's files beside it
  if (!holdsLog(dir) && readChainWitness(dir) === null) {
    throw new ConfigError(
      `data.dir: no gateway has run in ${resolve(dir)} yet: start one (npm start), or name the folder of the one ` +
        `that is meant (GATEWAY_DATA_DIR)`,
    )
  }
  const path = masterKeyFile(config)
  if (masterKeysOf(config) === null && readMasterKeys(path) === null) throw keyIsMissing(path)
}

/** The log of the settings, as plain data. `use` distinguishes the clients of one process on the brokers. */
export const logSettings = ({ log, data }: Pick<Config, 'log' | 'data'>, use: string): LogSettings =>
  isKafka({ log })
    ? { adapter: 'kafka', kafka: log.kafka, use }
    : { adapter: 'embedded', dataDir: data.dir, retentionMs: log.retention_hours * HOUR_MS }

export const isKafka = ({ log }: Pick<Config, 'log'>): boolean => log.kafka.brokers.length > 0
