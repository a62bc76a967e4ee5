// `gateway keys`: which master key wraps how many keys, and its rotation. Works with the gateway up or down; may be
// killed at any point and run again.
import { mkdirSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { openKeysBeside } from '../composition/installation.ts'
import { masterKeyFile, masterKeysFor } from '../composition/settings.ts'
import type { Config } from '../config/schema.ts'
import { newMasterKey, readMasterKeys, writeMasterKeys } from '../lib/crypto/master-key.ts'
import type { Diagnostics } from '../lib/process/diagnostics.ts'
import { ConfigError } from '../lib/settings/settings.ts'
import { type DirectoryLock, tryLock } from '../log/lock.ts'
import type { EventLog } from '../log/port.ts'
import { originalKeys } from '../state/data-keys/installation-keys.ts'
import { masterKeysFrom } from '../state/data-keys/master-keys.ts'
import type { DataKeyStore } from '../state/data-keys/store.ts'

export interface KeysCommand {
  readonly config: Config
  readonly log: EventLog
  readonly diagnostics: Diagnostics
  readonly signal: AbortSignal
  readonly action: string
  readonly print: (line: string) => void
  readonly complain: (line: string) => void
}

/** The actions of the command. */
export const KEYS_ACTIONS = ['status', 'rotate', 'retire'] as const

/** Keys that are written between two rounds are found by the next round; more rounds than this are never needed. */
const ROUNDS = 20

/** The exit code: 0 when every key is wrapped by the current master key afterwards. */
export const keysCommand = async (command: KeysCommand): Promise<number> => {
  const { action, complain } = command
  if (action === 'status') return withKeys(command, async (dataKeys) => (report(command, dataKeys) ? 0 : 1))
  const lock = lockRotation(command.config)
  try {
    if (action === 'rotate') return await rotate(command)
    if (action === 'retire') return await retire(command)
    complain(`"${action}" is nothing that keys can do: ${KEYS_ACTIONS.join(', ')}`)
    return 1
  } finally {
    lock.release()
  }
}

/** Two rotations of one key file at once would lose a key. */
const lockRotation = ({ data }: Config): DirectoryLock => {
  const folder = join(data.dir, 'rotation')
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const lock = tryLock(folder)
  if (lock === null) throw new ConfigError(`another \`gateway keys\` works in ${resolve(data.dir)}: wait for its end`)
  return lock
}

const withKeys = async (command: KeysCommand, use: (dataKeys: DataKeyStore) => Promise<number>): Promise<number> => {
  const dataKeys = await openKeysBeside(command)
  try {
    return await use(dataKeys)
  } finally {
    await dataKeys.close()
  }
}

const rotate = (command: KeysCommand): Promise<number> =>
  withKeys(command, async (dataKeys) => {
    const { config, log, signal, print, complain } = command
    if (dataKeys.installation() === null) {
      await dataKeys.storeInstallation(await originalKeys(log, masterKeysFor(config), signal))
    }
    if (config.security.master_key === null) replaceInFile(command)
    for (let round = 0; round < ROUNDS && !signal.aborted; round++) if ((await dataKeys.rewrap()) === 0) break
    if (!report(command, dataKeys)) {
      complain('not everything is wrapped by the current master key yet: run `gateway keys rotate` again')
      return 1
    }
    const retired = masterKeysFor(config).length > 1
    if (retired)
      print('The others are still accepted. Once no gateway runs that has not read this: `gateway keys retire`.')
    return 0
  })

/** A new key for the file, unless a rotation to its first key is under way: then that one is finished. */
const replaceInFile = ({ config, print }: KeysCommand): void => {
  const path = masterKeyFile(config)
  const keys = readMasterKeys(path)
  if (keys === null) throw new ConfigError(`${resolve(path)} is missing: restore it from a backup`)
  if (keys.length > 1) {
    print('A rotation was begun before and is finished; a further one comes after `gateway keys retire`.')
    return
  }
  writeMasterKeys(path, [newMasterKey(), ...keys])
  print(`${resolve(path)} holds a new master key, and the one before until it is retired: back it up.`)
}

const retire = (command: KeysCommand): Promise<number> =>
  withKeys(command, async (dataKeys) => {
    const { config, print, complain } = command
    if (!report(command, dataKeys)) {
      complain('other master keys are still needed: run `gateway keys rotate` first')
      return 1
    }
    const [current, ...others] = masterKeysFor(config)
    if (config.security.master_key !== null) {
      print('Nothing needs security.accepted_master_keys any more: they may be taken out of the settings.')
      return 0
    }
    if (others.length > 0) writeMasterKeys(masterKeyFile(config), [current])
    print(`${resolve(masterKeyFile(config))} holds one master key. Backups of it that hold others may be destroyed.`)
    return 0
  })

/** A line for each master key. Returns whether the current one wraps everything. */
const report = ({ config, print }: KeysCommand, dataKeys: DataKeyStore): boolean => {
  const accepted = masterKeysFrom(() => masterKeysFor(config)).fingerprints()
  const census = dataKeys.census()
  const [current] = accepted
  for (const fingerprint of new Set([...accepted, ...census.keys()])) {
    const role = fingerprint === current ? 'current' : accepted.includes(fingerprint) ? 'accepted' : 'not held'
    const count = census.get(fingerprint) ?? 0
    print(`master key ${fingerprint}  ${role.padEnd(8)}  wraps ${count} ${count === 1 ? 'key' : 'keys'}`)
  }
  return [...census.keys()].every((fingerprint) => fingerprint === current)
}
