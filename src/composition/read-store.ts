// Which Postgres a process uses: `database.url`, else the embedded one of the data folder, which one process runs and
// the others share.
import type { Config } from '../config/schema.ts'
import type { Diagnostics } from '../lib/process/diagnostics.ts'
import {
  type EmbeddedPostgres,
  embeddedPostgresUrl,
  PostgresHeld,
  startEmbeddedPostgres,
} from '../upkeep/postgres/embedded-postgres.ts'

export interface ReadStore {
  readonly url: string
  /** The server that this process runs; null when another process or the operator runs it. */
  readonly embedded: EmbeddedPostgres | null
  close(): Promise<void>
}

/**
 * Returns at once; connections wait until it is ready. Throws one clear line when there is neither a setting nor an
 * embedded Postgres for this platform.
 */
export const openReadStore = ({ database, data }: Config, diagnostics: Diagnostics): ReadStore => {
  const shared = (url: string): ReadStore => ({ url, embedded: null, async close() {} })
  if (database.url !== null) return shared(database.url)
  try {
    const embedded = startEmbeddedPostgres({ dataDir: data.dir, diagnostics })
    return { url: embedded.url, embedded, close: () => embedded.stop() }
  } catch (error) {
    const url = error instanceof PostgresHeld ? embeddedPostgresUrl(data.dir) : null
    if (url === null) throw error
    return shared(url)
  }
}

/** Days that single requests are kept: as long as the log has them a rebuild needs the same rows. */
export const requestDaysOf = ({ worker, log }: Config): number =>
  Math.max(worker.request_days, Math.ceil(log.retention_hours / 24) + 1)
