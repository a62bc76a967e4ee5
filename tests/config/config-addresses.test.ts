// What the settings take for an address: a slip stops the start with its key, not later in the words of a client.
import { describe, expect, test } from 'bun:test'
import { loadConfig } from '../../src/config/schema.ts'

const MASTER_KEY = Buffer.alloc(32, 9).toString('base64')

const refusal = (variable: string, value: string): string | null => {
  try {
    loadConfig({ file: null, env: { GATEWAY_SECURITY_MASTER_KEY: MASTER_KEY, [variable]: value } })
    return null
  } catch (error) {
    return (error as Error).message
  }
}

describe.each([
  [
    'GATEWAY_DATABASE_URL',
    [
      ...[
        'postgres://h/db',
        'postgresql://u:p%40ss@h:5432/db?sslmode=require',
        'postgres://u:p@ss@h/db',
        'postgres:///db',
      ],
      ...['postgres://u:p@a:1,b:2/db', 'postgres://u:p@[::1]:5432/db'],
    ],
    [
      'postgres://u:p@h:notaport/db',
      'postgres://u:p@h:99999/db',
      'postgres://u:p@h:0/db',
      'postgres://u:p%zz@h/db',
      'h:5432',
    ],
  ],
  [
    'GATEWAY_REDIS_URL',
    ['redis://h', 'redis://h:6379/', 'rediss://u:p@h:6379/1', 'redis://:p@[::1]:6379/0'],
    [
      'redis://h:99999',
      'redis://h:0',
      'redis://127.0.0.1:1/abc',
      'redis://h/1/2',
      'redis://h/-1',
      'redis://a b',
      'h:6379',
    ],
  ],
  [
    'GATEWAY_LOG_KAFKA_BROKERS',
    ['127.0.0.1:9092', 'kafka-1:9092, kafka_2.internal:9093', '[::1]:9092'],
    ['127.0.0.1', 'a:9092,b', 'a:0', 'a:99999', 'a:port', 'kafka://a:9092', ':9092', 'a:9092/x'],
  ],
  [
    'GATEWAY_TELEMETRY_OTLP_ENDPOINT',
    ['http://collector:4318', 'https://u:p@collector/otlp', 'http://[::1]:4318'],
    ['http://h:99999', 'http://h:0', 'garbage', 'http://', 'collector:4318', 'grpc://collector:4317'],
  ],
  [
    'GATEWAY_TELEMETRY_OTLP_HEADERS',
    ['api-key=a%20b', 'a=1, x_scope = team=1,', 'a='],
    ['garbage', 'a=1,garbage', '=1', 'a b=1', 'a=%0A'],
  ],
  [
    'GATEWAY_SERVER_HOST',
    ['127.0.0.1', '0.0.0.0', '::', '::1', 'fe80::1%eth0', 'localhost', 'gateway-1.internal', 'a_b'],
    ['http://x', '[::1]', '127.0.0.1:80', 'localhost:80', 'a b', 'a/b', '*'],
  ],
] as const)('%s', (variable, taken, refused) => {
  test.each([...taken])('takes %s', (value) => expect(refusal(variable, value)).toBeNull())
  test.each([...refused])('refuses %s', (value) => {
    const message = refusal(variable, value)
    expect(message).toStartWith(`${variable} must be `)
    expect(message).not.toContain('\n')
  })
})
