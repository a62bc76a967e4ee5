// The settings of `log.kafka` as options of a cluster.
import type { ClusterOptions } from './cluster.ts'

export interface KafkaSettings {
  readonly brokers: readonly string[]
  readonly client_id: string
  readonly ssl: boolean
  readonly sasl_mechanism: 'none' | 'plain' | 'scram-sha-256' | 'scram-sha-512'
  readonly sasl_username: string | null
  readonly sasl_password: string | null
  readonly compression: 'lz4' | 'none'
}

/** `use` is appended to the client id, so that the brokers' logs and quotas distinguish the clients of one process. */
export const kafkaAccess = (settings: KafkaSettings, use: string): ClusterOptions => {
  const { brokers, client_id, ssl, sasl_mechanism, sasl_username, sasl_password, compression } = settings
  const clientId = `${client_id}-${use}`
  if (sasl_mechanism === 'none') return { brokers, clientId, ssl, compression }
  const login = { username: sasl_username ?? '', password: sasl_password ?? '' }
  return { brokers, clientId, ssl, compression, sasl: { mechanism: sasl_mechanism, ...login } }
}
