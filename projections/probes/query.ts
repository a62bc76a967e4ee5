// Probes -> the recent ones of a provider.
import { MOST_PROBES, type ProbeRecorded } from '../../src/domain/events/health.ts'
import type { Sql } from '../database.ts'
import { readActive } from '../reader.ts'

export type StoredProbe = Omit<ProbeRecorded, 'provider_id' | 'provider'>

export interface ProbeQueries {
  /** Probes by every instance, newest first, at most `MOST_PROBES`. Throws ReadStoreUnavailable within 2 s. */
  recent(providerId: string): Promise<readonly StoredProbe[]>
}

export const probeQueries = (sql: Sql): ProbeQueries => ({
  recent: (providerId) =>
    readActive(
      sql,
      'probes',
      async (schemaName) => sql<StoredProbe[]>`
        select at_ms, trigger, ok, latency_ms, error_code, upstream_status, models from ${sql(`${schemaName}.probe`)}
        where provider_id = ${providerId}
        order by at_ms desc, instance desc, epoch desc, sequence desc limit ${MOST_PROBES}`,
    ),
})
