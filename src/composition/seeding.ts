// Runs the seeder at start: until it is done, however long the log is not reachable.

import type { Config } from '../config/schema.ts'
import { checkBootstrap } from '../domain/bootstrap.ts'
import { newApiKey, newId } from '../lib/crypto/ids.ts'
import type { Diagnostics } from '../lib/process/diagnostics.ts'
import { ConfigError } from '../lib/settings/settings.ts'
import { wallMs } from '../lib/time/wall-clock.ts'
import { CommitFailure } from '../state/port.ts'
import { wantedKeys } from '../upkeep/bootstrap/keys.ts'
import { credentialNotes } from '../upkeep/bootstrap/left-out/credentials.ts'
import { openSeeder } from '../upkeep/bootstrap/seeder.ts'
import type { SeedInput, SeedReport } from '../upkeep/bootstrap/step.ts'
import type { KindTable } from '../upkeep/models/kind-table.ts'
import type { ModelCatalogue } from '../upkeep/models/model-listing.ts'
import type { ControlPlane } from './control-plane.ts'
import type { Environment } from './settings.ts'

const RETRY_MS = 2_000

export interface SeedingDeps {
  readonly config: Config
  readonly env: Environment
  readonly control: Pick<ControlPlane, 'live' | 'commits'>
  readonly kindTable: KindTable
  readonly modelCatalogue: ModelCatalogue
  readonly diagnostics: Diagnostics
}

const inputOf = (config: Config, env: Environment): SeedInput => {
  const bootstrap = checkBootstrap(config.bootstrap)
  if (!bootstrap.ok) throw new ConfigError(bootstrap.error)
  const keyOf = (variable: string) => (env[variable] === undefined || env[variable] === '' ? null : env[variable])
  return {
    bootstrap: bootstrap.value,
    adminKey: keyOf('GATEWAY_BOOTSTRAP_ADMIN_KEY'),
    inferenceKey: keyOf('GATEWAY_BOOTSTRAP_INFERENCE_KEY'),
  }
}

/** Before anything is started. Throws BootstrapRefused for a key that no client could send. */
export const checkKeys = (config: Config, env: Environment): void => {
  wantedKeys(inputOf(config, env), { env: (name) => env[name], minKeyLength: config.auth.min_key_length })
}

/**
 * Resolves with what was seeded. Rejects with BootstrapRefused for what the settings name and nothing makes,
 * ControlLogRefused for a log that must not be served from.
 */
export const seedUntilDone = async (deps: SeedingDeps): Promise<SeedReport> => {
  const { config, env, control, kindTable, modelCatalogue, diagnostics } = deps
  const { live, commits } = control
  const variables = (name: string) => env[name]
  const seed = openSeeder(inputOf(config, env), {
    live,
    commit: commits.commit,
    kindTable,
    modelCatalogue,
    env: variables,
    minKeyLength: config.auth.min_key_length,
    newId,
    newApiKey,
    nowMs: wallMs,
  })
  await live.ready()
  for (;;) {
    try {
      const report = await seed()
      const missing = credentialNotes(live.control, { kindTable, env: variables })
      for (const note of [...report.notes, ...missing]) diagnostics.warn('bootstrap_note', { note })
      return report
    } catch (error) {
      if (!(error instanceof CommitFailure) || live.status().phase === 'stopped') throw error
      diagnostics.warn('seeding_waits', { error })
      await Bun.sleep(RETRY_MS)
    }
  }
}
