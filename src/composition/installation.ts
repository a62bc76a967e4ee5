// The keys of the installation (what its chain is signed with), as the gateway and the commands beside it find them.
import type { Config } from '../config/schema.ts'
import { sleep } from '../lib/event-loop/sleep.ts'
import { waitBriefly } from '../lib/event-loop/wait-with-timeout.ts'
import type { Diagnostics } from '../lib/process/diagnostics.ts'
import { type EventLog, LogUnavailable } from '../log/port.ts'
import { TOPICS } from '../log/topics.ts'
import { openDataKeys } from '../state/data-keys/data-keys.ts'
import { cachedKeys, derivedFrom, type InstallationKeys, originalKeys } from '../state/data-keys/installation-keys.ts'
import type { ReadMasterKeys } from '../state/data-keys/master-keys.ts'
import type { DataKeyStore } from '../state/data-keys/store.ts'
import { masterKeysFor } from './settings.ts'

const RETRY_MS = 1_000

interface StoredDeps {
  readonly log: EventLog
  readonly dataKeys: DataKeyStore
  readonly masterKeys: ReadMasterKeys
  readonly signal: AbortSignal
}

/**
 * Those that are stored, else those that the chain began with. Throws MasterKeyMissing, or LogUnavailable when the log
 * cannot be read now.
 */
const installationKeys = async ({ log, dataKeys, masterKeys, signal }: StoredDeps): Promise<InstallationKeys> => {
  const cached = dataKeys.installation()
  if (cached !== null) return cached
  await dataKeys.ready()
  return dataKeys.installation() ?? (await originalKeys(log, masterKeys(), signal))
}

interface StartDeps extends StoredDeps {
  readonly diagnostics: Diagnostics
  readonly onRefused: (error: unknown) => void
}

/**
 * For a start, which does not wait for unreachable brokers: with a single master key it goes on with what derives from
 * that one, and is refused later if the log then shows others (a rotated installation, started without its data
 * folder).
 */
export const installationKeysAtStart = async (deps: StartDeps): Promise<InstallationKeys> => {
  const { masterKeys, signal, onRefused } = deps
  const stored = onceReachable(deps, signal)
  stored.catch(() => {}) // reported below, or of no interest once the start was given up
  let keys: InstallationKeys | null = null
  const work = stored.then((found) => {
    if (keys !== null && !sameKeys(keys, found))
      throw new Error('the master key was rotated, and this start could not see it while the log was away: start again')
    keys = found
  })
  const [only, ...others] = masterKeys()
  if (others.length > 0) await work
  else await waitBriefly(work, (error) => void (signal.aborted || onRefused(error)))
  keys ??= derivedFrom(only!)
  return keys
}

const sameKeys = (left: InstallationKeys, right: InstallationKeys): boolean =>
  Buffer.from(left.decisionMac).equals(right.decisionMac)

/** Retries while the log is not reachable. */
const onceReachable = async (deps: StoredDeps, signal: AbortSignal): Promise<InstallationKeys> => {
  for (;;) {
    try {
      return await installationKeys(deps)
    } catch (error) {
      if (!(error instanceof LogUnavailable) || signal.aborted) throw error
      await sleep(RETRY_MS, signal)
    }
  }
}

/** Stores them where they are not stored yet: from then on the master key may change. */
export const keepInstallationKeys = async (
  dataKeys: DataKeyStore,
  keys: InstallationKeys,
  diagnostics: Diagnostics,
): Promise<void> => {
  try {
    await dataKeys.ready()
    if (dataKeys.installation() === null) await dataKeys.storeInstallation(keys)
  } catch (error) {
    // closed, or the log is not reachable: the next start does it
    diagnostics.debug('installation_keys_not_stored', { error })
  }
}

interface CommandDeps {
  readonly config: Config
  readonly log: EventLog
  readonly diagnostics: Diagnostics
  readonly signal: AbortSignal
  /** While the log is not reachable, wait for it. */
  readonly waits: boolean
}

/**
 * Data keys for a command beside the gateway: read from the topic, nothing is kept. Throws LogUnavailable and
 * MasterKeyMissing.
 */
export const openKeysBeside = async ({
  config,
  log,
  diagnostics,
}: Omit<CommandDeps, 'waits'>): Promise<DataKeyStore> => {
  await log.end(TOPICS.keys.name, 0)
  const instance = `command_${process.pid}`
  const masterKeys = () => masterKeysFor(config)
  const dataKeys = await openDataKeys({ log, masterKeys, instance, dataDir: null, nowMs: Date.now, diagnostics })
  try {
    await dataKeys.ready()
    return dataKeys
  } catch (error) {
    await dataKeys.close()
    throw error
  }
}

/** The key of the decisions' MAC, for a command that reads the chain. */
export const macKeyBeside = async (deps: CommandDeps): Promise<Uint8Array> => {
  const masterKeys = () => masterKeysFor(deps.config)
  const cached = await cachedKeys(deps.config.data.dir, masterKeys)
  if (cached !== null) return cached.decisionMac
  for (;;) {
    try {
      const dataKeys = await openKeysBeside(deps)
      try {
        return (await installationKeys({ ...deps, dataKeys, masterKeys })).decisionMac
      } finally {
        await dataKeys.close()
      }
    } catch (error) {
      if (!deps.waits || !(error instanceof LogUnavailable) || deps.signal.aborted) throw error
      await sleep(RETRY_MS, deps.signal)
    }
  }
}
