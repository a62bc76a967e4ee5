import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { settingsPage, settingsTable } from '../../src/config/page.ts'
import {
  allowsPrivate,
  LEAVES,
  loadConfig,
  masterKeysOf,
  printed,
  redacted,
  shutdownGraceMs,
} from '../../src/config/schema.ts'
import { newApiKey } from '../../src/lib/crypto/ids.ts'
import { MOST_DURATION } from '../../src/lib/settings/kinds.ts'
import { ConfigError } from '../../src/lib/settings/settings.ts'
import { CONFIRM_EVERY_MS, LEAST_MAX_STALENESS_MS } from '../../src/lib/time/confirm-period.ts'
import { durationMs } from '../../src/lib/time/duration.ts'

const MASTER_KEY = Buffer.alloc(32, 9).toString('base64')

const load = (text: string, env: Record<string, string> = {}) =>
  loadConfig({ file: text === '' ? null : { name: 'gateway.yaml', text }, env })

/** The message of the one line that stops the start. */
const refused = (text: string, env: Record<string, string> = {}): string => {
  try {
    load(text, env)
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError)
    const { message } = error as ConfigError
    expect(message).not.toContain('\n')
    return message
  }
  throw new Error('it was accepted')
}

describe('where a value comes from', () => {
  test('with nothing set, everything has its default', () => {
    const { config, warnings } = load('')
    expect(config.server).toMatchObject({ host: '127.0.0.1', port: 8080, processes: 1, listener: 'own' })
    expect(config.log).toMatchObject({ durability: 'process', kafka: { brokers: [] } })
    expect(config.auth).toEqual({
      cache_ttl: '30s',
      min_key_length: 20,
      header_name: 'Authorization',
      max_staleness: 'off',
    })
    expect(warnings).toEqual([])
  })

  test('the file beats the default, the environment beats the file', () => {
    const { config, origins } = load('server:\n  port: 9000\n  host: 0.0.0.0\n', { GATEWAY_SERVER_PORT: '9001' })
    expect(config.server).toMatchObject({ port: 9001, host: '0.0.0.0' })
    expect([origins.get('server.port'), origins.get('server.host'), origins.get('server.drain')]).toEqual([
      'GATEWAY_SERVER_PORT',
      'gateway.yaml',
      'default',
    ])
  })

  test('lists, booleans and numbers are read from variables', () => {
    const { config } = load('', {
      GATEWAY_SERVER_TRUSTED_PROXIES: '10.0.0.0/8, ::1',
      GATEWAY_COOKIE_SECURE: 'true',
      GATEWAY_LOG_RETENTION_HOURS: '24',
    })
    expect(config.server.trusted_proxies).toEqual(['10.0.0.0/8', '::1'])
    expect(config.cookie_secure).toBe(true)
    expect(config.log.retention_hours).toBe(24)
  })

  test('an empty variable is one that is not set', () => {
    expect(load('', { GATEWAY_SERVER_PORT: '', GATEWAY_REDIS_URL: '' }).config).toEqual(load('').config)
  })

  test('defaults are not shared between two loads', () => {
    load('').config.server.trusted_proxies.push('10.0.0.1')
    expect(load('').config.server.trusted_proxies).toEqual([])
  })
})

describe('what stops the start', () => {
  test('an unknown key names itself, its line and the likely one', () => {
    expect(refused('server:\n  host: x\n  prot: 1\n')).toBe(
      'gateway.yaml, line 3, column 3: server.prot is not a setting; did you mean server.port?',
    )
    expect(refused('sever:\n  port: 1\n')).toContain('did you mean server?')
    expect(refused('port: 8080\n')).toContain('did you mean server.port?')
    expect(refused('server:\n  zzzzzzzz: 1\n')).toContain('known here: host, port')
  })

  test('a wrong type names the key or the variable and what it must be', () => {
    expect(refused('server:\n  port: often\n')).toBe(
      'gateway.yaml, line 2, column 3: server.port must be a whole number from 0 to 65535; "often" is not',
    )
    expect(refused('', { GATEWAY_SERVER_PORT: '70000' })).toBe(
      'GATEWAY_SERVER_PORT must be a whole number from 0 to 65535; 70000 is not',
    )
    expect(refused('', { GATEWAY_ADMIN_ENABLED: 'yes' })).toContain('must be true or false')
    expect(refused('log:\n  durability: disk\n')).toContain('one of process, host, log')
    expect(refused('server:\n  listener: node\n')).toBe(
      'gateway.yaml, line 2, column 3: server.listener must be one of own, bun; "node" is not',
    )
    expect(refused('', { GATEWAY_SERVER_LISTENER: 'Bun' })).toBe(
      'GATEWAY_SERVER_LISTENER must be one of own, bun; "Bun" is not',
    )
    expect(refused('server: 1\n')).toContain('server is a section')
  })

  test('there is no day unit', () => expect(refused('auth:\n  cache_ttl: 7d\n')).toContain('a duration from 0s'))

  test('text that is not YAML names the line', () =>
    expect(refused('server:\n  port: 1\nlog: [a,\n')).toStartWith('gateway.yaml, line 3, column 8: this is not YAML'))

  test.each([
    ['a bad value in braces', 'server: {host: x, port: often}\n', 19, 'server.port must be a whole number'],
    ['an unknown key in JSON', '{"server": {"prot": 1}}', 13, 'server.prot is not a setting'],
    ['a section that is a value', 'log: {kafka: 1}\n', 7, 'log.kafka is a section'],
    ['a merge key', 'server: {<<: {port: 1}}\n', 10, 'merge keys (<<) are not supported; write the keys out'],
    ['a tag', 'environment: !env NAME\n', 14, 'tags (!name) are not supported; remove the tag'],
  ])('%s names line and column', (_, text, column, message) =>
    expect(refused(text)).toStartWith(`gateway.yaml, line 1, column ${column}: ${message}`),
  )

  test('text that is not YAML is not quoted: it may be a secret', () => {
    for (const text of ['pa55word', '"pa55word', '@pa55word', '"x" pa55word', '|pa55word', '*pa55word', '"\\pa55word"'])
      expect(refused(`security:\n  master_key: ${text}\nlog\n`)).not.toContain('55word')
  })

  test('a section or a key that stands twice, of which one would be dropped', () => {
    expect(refused('server:\n  port: 9000\nlog:\n  retention_hours: 24\nserver:\n  host: 0.0.0.0\n')).toBe(
      'gateway.yaml, line 5, column 1: server stands twice, first in line 1; make one of both',
    )
    expect(refused('bootstrap:\n  providers:\n    - name: a\n    - name: b\n      kind: x\n      name: c\n')).toBe(
      'gateway.yaml, line 6, column 7: bootstrap.providers[1].name stands twice, first in line 4; make one of both',
    )
  })

  test.each(['constructor', 'toString', '__proto__'])('%s, which every object has, is no setting', (key) => {
    expect(refused(`${key}:\n  a: 1\n`)).toStartWith(`gateway.yaml, line 1, column 1: ${key} is not a setting`)
    expect(refused(`server:\n  ${key}: 1\n`)).toStartWith(
      `gateway.yaml, line 2, column 3: server.${key} is not a setting`,
    )
  })

  test('Kafka without a master key', () =>
    expect(refused('', { GATEWAY_LOG_KAFKA_BROKERS: 'a:9092' })).toStartWith(
      'security.master_key is required with log.kafka.brokers',
    ))

  test('a secret that is wrong is not quoted', () => {
    const message = refused('', { GATEWAY_SECURITY_MASTER_KEY: 'c2hvcnQ=' })
    expect(message).toContain('32 bytes in base64')
    expect(message).not.toContain('c2hvcnQ=')
  })

  test('accepted master keys: none is quoted when wrong, and they stand beside the current one', () => {
    const message = refused('', { GATEWAY_SECURITY_ACCEPTED_MASTER_KEYS: `${MASTER_KEY},c2hvcnQ=` })
    expect(message).toContain('a list of keys, each of 32 bytes in base64; the value is not')
    expect(message).not.toContain(MASTER_KEY)
    expect(refused('', { GATEWAY_SECURITY_ACCEPTED_MASTER_KEYS: MASTER_KEY })).toContain(
      'stand beside security.master_key',
    )
  })

  test('a least length that the keys which the gateway makes do not have', () => {
    expect(refused('', { GATEWAY_AUTH_MIN_KEY_LENGTH: '52' })).toBe(
      'GATEWAY_AUTH_MIN_KEY_LENGTH must be a whole number from 1 to 51 (the keys that the gateway makes have 51 characters: beyond it none of them works); 52 is not',
    )
    expect(load('', { GATEWAY_AUTH_MIN_KEY_LENGTH: '51' }).config.auth.min_key_length).toBe(newApiKey().length)
  })

  test('a bound of staleness that a healthy instance does not keep', () => {
    for (const value of ['0s', '1ms', '500ms', '2s', '5999ms'])
      expect(refused('', { GATEWAY_AUTH_MAX_STALENESS: value })).toBe(
        `GATEWAY_AUTH_MAX_STALENESS must be off, or a duration from 6s to 480h such as 60s (the end is confirmed every 2s: less refuses requests while all is well); "${value}" is not`,
      )
    expect(LEAST_MAX_STALENESS_MS).toBeGreaterThan(2 * CONFIRM_EVERY_MS)
    for (const value of ['6s', '1m', 'off'])
      expect(load(`auth:\n  max_staleness: ${value}\n`).config.auth.max_staleness).toBe(value)
  })

  // A timer beyond 2^31 ms fires at once: such a drain time would cut requests in flight, and such an interval would
  // query providers in a tight loop.
  test.each([
    ['SERVER_DRAIN', ['481h', '1000h', `${'9'.repeat(400)}h`], ['0s', '480h']],
    ['SERVER_SHUTDOWN_GRACE', ['off', '-1s', '11m', 'soon', '5'], ['0s', '10m']],
    ['SERVER_BODY_TIMEOUT', ['0s', '999ms', '1000h'], ['1s', '480h']],
    ['SERVER_IDLE_TIMEOUT', ['29s', '5m'], ['30s', '4m']],
    ['SERVER_MAX_EVENT_LOOP_DELAY', ['0s', '1000h'], ['10ms', 'off']],
    ['AUTH_CACHE_TTL', ['1000h'], ['0s']],
    ['AUTH_MAX_STALENESS', ['1000h'], ['480h']],
    ['HEALTH_PROBE_INTERVAL', ['0s', '1ms', '4s', '1000h'], ['5s', '480h', 'off']],
  ])('%s has bounds, and says them', (key, outside, within) => {
    for (const value of outside)
      expect(refused('', { [`GATEWAY_${key}`]: value })).toMatch(
        /must be (off, or )?a duration from \w+ to \w+ such as/,
      )
    for (const value of within) expect(load('', { [`GATEWAY_${key}`]: value }).warnings).toEqual([])
  })

  test('a stop takes requests for a while where load balancers have to notice it, unless it is set', () => {
    const kafka = `log:\n  kafka:\n    brokers: [kafka-1:9092]\nsecurity:\n  master_key: ${MASTER_KEY}\n`
    expect(shutdownGraceMs(load('').config)).toBe(0)
    expect(shutdownGraceMs(load('server:\n  host: "::1"\n').config)).toBe(0)
    expect(shutdownGraceMs(load('server:\n  host: 0.0.0.0\n').config)).toBe(5_000)
    expect(shutdownGraceMs(load(kafka).config)).toBe(5_000)
    expect(shutdownGraceMs(load(kafka, { GATEWAY_SERVER_SHUTDOWN_GRACE: '0s' }).config)).toBe(0)
    expect(shutdownGraceMs(load('server:\n  shutdown_grace: 12s\n').config)).toBe(12_000)
  })

  test('the most that a duration may be is held by timers, a fifth and an hour beyond it too', () =>
    expect(durationMs(MOST_DURATION)! * 1.2 + 3_600_000).toBeLessThan(2 ** 31))

  test.each([
    ...['Host', 'Content-Length', 'Transfer-Encoding', 'Expect', 'Connection', 'TE', 'Accept', 'Accept-Encoding'],
    ...['Cookie', 'User-Agent', 'Origin', 'Date', 'Range', 'If-Match', 'Idempotency-Key', 'Proxy-Authorization'],
    ...['X-Request-ID', 'X-Gateway-Endpoint', 'X-Forwarded-For', 'traceparent', 'tracestate', 'baggage', 'a header'],
  ])('%s as the header of the key', (name) => {
    expect(refused(`auth:\n  header_name: ${name}\n`)).toBe(
      `gateway.yaml, line 2, column 3: auth.header_name must be a header name that HTTP, proxies and the gateway do not use for anything else, such as Authorization or X-Api-Key; "${name}" is not`,
    )
  })

  test('other headers may carry the key', () => {
    for (const name of ['authorization', 'X-Api-Key', 'Api-Key', 'Ocp-Apim-Subscription-Key', 'X-Acme-Key'])
      expect(load(`auth:\n  header_name: ${name}\n`).config.auth.header_name).toBe(name)
  })

  test('settings that do not go together', () => {
    expect(refused('log:\n  durability: log\n')).toContain('log.kafka.brokers')
    expect(refused('server:\n  processes: 2\n  port: 0\n')).toContain('server.port 0')
    expect(refused('log:\n  kafka:\n    sasl_mechanism: plain\n')).toContain('log.kafka.sasl_username')
  })
})

describe('variables that are not settings', () => {
  test('a mistyped name of a first key is one, the names that the file gives to keys are none', () => {
    const env = { GATEWAY_BOOTSTRAP_ADMIN_KEYS: 'k'.repeat(20), GATEWAY_BOOTSTRAP_TEAM_KEY: 'k'.repeat(20) }
    expect(
      load('bootstrap:\n  keys:\n    - {name: team, key_env: GATEWAY_BOOTSTRAP_TEAM_KEY}\n', env).warnings,
    ).toEqual([
      'GATEWAY_BOOTSTRAP_ADMIN_KEYS is not a setting and is ignored; did you mean GATEWAY_BOOTSTRAP_ADMIN_KEY?',
    ])
    for (const text of ['', 'bootstrap:\n  keys: all\n', 'bootstrap:\n  keys: [null, 1, {key_env: 1}]\n'])
      expect(load(text, env).warnings).toHaveLength(2)
  })

  test('a mistyped one is a warning that names the likely one', () => {
    expect(load('', { GATEWAY_SERVER_PROT: '1' }).warnings).toEqual([
      'GATEWAY_SERVER_PROT is not a setting and is ignored; did you mean GATEWAY_SERVER_PORT?',
    ])
  })

  test('the known ones, those of others and container links are silent', () => {
    const env = {
      GATEWAY_CONFIG: 'x.yaml',
      GATEWAY_BOOTSTRAP_ADMIN_KEY: 'k'.repeat(20),
      GATEWAY_PORT: 'tcp://10.0.0.1:80',
      GATEWAY_SERVER_PORT: 'tcp://10.0.0.1:80',
      GATEWAY_PORT_80_TCP_ADDR: '10.0.0.1',
      GATEWAY_SERVICE_HOST: '10.0.0.1',
      PATH: '/bin',
    }
    const { config, warnings } = load('', env)
    expect(warnings).toEqual([])
    expect(config.server.port).toBe(8080)
  })
})

describe('what is shown', () => {
  const env = {
    GATEWAY_SECURITY_MASTER_KEY: MASTER_KEY,
    GATEWAY_SECURITY_ACCEPTED_MASTER_KEYS: MASTER_KEY,
    GATEWAY_DATABASE_URL: 'postgres://gate:pa55word@db:5432/gateway?sslkey=hidden',
    GATEWAY_LOG_KAFKA_SASL_PASSWORD: 'pa55word',
  }

  test('secrets are redacted, in both views', () => {
    const loaded = load('bootstrap:\n  providers:\n    - {name: a, secret: pa55word}\n', env)
    for (const text of [JSON.stringify(redacted(loaded.config)), printed(loaded)]) {
      expect(text).not.toContain('pa55word')
      expect(text).not.toContain('hidden')
      expect(text).not.toContain(MASTER_KEY)
      expect(text).toContain('postgres://[redacted]@db:5432/gateway')
    }
  })

  test('of a URL with a password no part is shown, whatever stands in it', () => {
    const loaded = load('', {
      GATEWAY_DATABASE_URL: 'postgres://gate:pa55@w0rd@127.0.0.1:5432/gateway',
      GATEWAY_REDIS_URL: 'redis://:pa55@w0rd@cache:6379/1',
      GATEWAY_TELEMETRY_OTLP_ENDPOINT: 'http://gate:pa55@w0rd@collector:4318?token=hidden',
      GATEWAY_TELEMETRY_OTLP_HEADERS: 'x-url=http://w0rd',
    })
    for (const text of [JSON.stringify(redacted(loaded.config)), printed(loaded)])
      for (const part of ['pa55', 'w0rd', 'hidden']) expect(text).not.toContain(part)
    expect(redacted(loaded.config)).toMatchObject({
      'database.url': 'postgres://[redacted]@127.0.0.1:5432/gateway',
      'redis.url': 'redis://[redacted]@cache:6379/1',
      'telemetry.otlp_endpoint': 'http://[redacted]@collector:4318?[redacted]',
      'telemetry.otlp_headers': '[redacted]',
    })
  })

  test('every line says where its value comes from', () => {
    const lines = printed(load('server:\n  port: 1\n', env)).split('\n')
    expect(lines.find((line) => line.startsWith('server.port'))).toMatch(/^server\.port = 1 +# gateway\.yaml$/)
    expect(lines.find((line) => line.startsWith('security.master_key'))).toEndWith('# GATEWAY_SECURITY_MASTER_KEY')
    expect(lines.every((line) => /# (default|gateway\.yaml|GATEWAY_\w+)$/.test(line))).toBe(true)
  })
})

describe('docs/settings.md', () => {
  test('is what `gateway config --docs` writes', () =>
    expect(readFileSync(join(import.meta.dir, '../../docs/settings.md'), 'utf8')).toBe(settingsPage()))

  test('describes every key, says what it takes, and names the unit of every number but the port', () => {
    const rows = settingsTable().split('\n').slice(2)
    expect(rows.length).toBe(LEAVES.length)
    const cells = rows.map((row) => row.slice(2, -2).split(/(?<!\\) \| /))
    for (const [key, , fallback, unit, description, takes] of cells) {
      expect({ key, isDescribed: description!.length >= 8 && takes !== '' }).toEqual({ key, isDescribed: true })
      if (/^`\d+`$/.test(fallback!) && key !== '`server.port`') expect({ key, unit }).not.toEqual({ key, unit: '' })
    }
  })
})

test('private upstreams are allowed only while we listen on loopback, unless told otherwise', () => {
  const allowed = (env: Record<string, string>) => allowsPrivate(load('', env).config)
  expect(allowed({})).toBe(true)
  expect(allowed({ GATEWAY_SERVER_HOST: '0.0.0.0' })).toBe(false)
  expect(allowed({ GATEWAY_SERVER_HOST: '0.0.0.0', GATEWAY_EGRESS_ALLOW_PRIVATE: 'true' })).toBe(true)
  expect(allowed({ GATEWAY_EGRESS_ALLOW_PRIVATE: 'false' })).toBe(false)
})

test('the master key is its 32 bytes', () => {
  expect(masterKeysOf(load('').config)).toBeNull()
  expect(masterKeysOf(load('', { GATEWAY_SECURITY_MASTER_KEY: MASTER_KEY }).config)).toEqual([
    new Uint8Array(32).fill(9),
  ])
})
