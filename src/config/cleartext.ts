// Passwords that the settings send over a connection without TLS: whoever takes the place of the other end gets them,
// on loopback another account of the machine.
import type { Config } from './schema.ts'

export interface Cleartext {
  readonly setting: string
  readonly mend: string
}

/** Postgres is none of them: its driver gives no password in cleartext without TLS. */
export const cleartextPasswords = ({ log, redis }: Pick<Config, 'log' | 'redis'>): readonly Cleartext[] => {
  const found: Cleartext[] = []
  const { brokers, ssl, sasl_mechanism: mechanism } = log.kafka
  if (brokers.length > 0 && mechanism === 'plain' && !ssl)
    found.push({
      setting: 'log.kafka.sasl_password',
      mend: 'set log.kafka.ssl, or log.kafka.sasl_mechanism to scram-sha-512',
    })
  if (redis.url !== null && /^redis:/i.test(redis.url) && new URL(redis.url).password !== '')
    found.push({
      setting: 'redis.url',
      mend: 'begin it with rediss://, or give it a user that may do no more than it needs',
    })
  return found
}
