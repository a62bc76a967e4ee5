import { expect, test } from 'bun:test'
import { cleartextPasswords } from '../../src/config/cleartext.ts'
import { loadConfig } from '../../src/config/schema.ts'

const settingsOf = (env: Record<string, string>): string[] =>
  cleartextPasswords(loadConfig({ file: null, env }).config).map(({ setting }) => setting)

const KAFKA = {
  GATEWAY_SECURITY_MASTER_KEY: Buffer.alloc(32, 7).toString('base64'),
  GATEWAY_LOG_KAFKA_BROKERS: 'kafka-1:9092',
  GATEWAY_LOG_KAFKA_SASL_MECHANISM: 'plain',
  GATEWAY_LOG_KAFKA_SASL_USERNAME: 'gate',
  GATEWAY_LOG_KAFKA_SASL_PASSWORD: 'pass-word',
}

test('a start names each password that goes out without TLS', () => {
  expect(settingsOf({})).toEqual([])
  expect(settingsOf({ GATEWAY_REDIS_URL: 'redis://:pass-word@127.0.0.1:6379' })).toEqual(['redis.url'])
  expect(settingsOf({ GATEWAY_REDIS_URL: 'redis://127.0.0.1:6379' })).toEqual([])
  expect(settingsOf({ GATEWAY_REDIS_URL: 'rediss://:pass-word@127.0.0.1:6379' })).toEqual([])
  expect(settingsOf(KAFKA)).toEqual(['log.kafka.sasl_password'])
  expect(settingsOf({ ...KAFKA, GATEWAY_LOG_KAFKA_SSL: 'true' })).toEqual([])
  expect(settingsOf({ ...KAFKA, GATEWAY_LOG_KAFKA_SASL_MECHANISM: 'scram-sha-512' })).toEqual([])
})
