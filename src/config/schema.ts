// The settings: one schema with a default and a description for each key. File and environment -> Config, or one line
// with the mend.
import './addresses.ts'
import { FormatRegistry, type Static, t } from '../lib/schema/schema.ts'
import {
  choice,
  durationOrOff,
  flag,
  MOST_DURATION,
  optional,
  optionalUrl,
  section,
  text,
  texts,
  whole,
} from '../lib/settings/kinds.ts'
import { ConfigError, getPath, type Leaf, leavesOf, readSettings, type Settings } from '../lib/settings/settings.ts'
import { redactedUrl } from '../lib/text/shown-url.ts'
import { durationMs } from '../lib/time/duration.ts'
import { Auth } from './auth.ts'
import { checkServer, Server } from './server.ts'

const PREFIX = 'GATEWAY_'
const MASTER_KEY_BYTES = 32

const isMasterKey = (text: string): boolean =>
  /^[A-Za-z0-9+/_-]+={0,2}$/.test(text) && Buffer.from(text, 'base64').length === MASTER_KEY_BYTES
FormatRegistry.Set('gateway-master-key', isMasterKey)

const Kafka = section({
  brokers: texts({
    default: [],
    description: 'Kafka brokers. None: the embedded log in `data.dir`.',
    format: 'gateway-host-port',
    expects: 'a list of host:port such as kafka-1:9092',
  }),
  client_id: text({ default: 'gatelog', description: 'Client id shown to the brokers.' }),
  ssl: flag({ default: false, description: 'Connect with TLS.' }),
  sasl_mechanism: choice(['none', 'plain', 'scram-sha-256', 'scram-sha-512'], {
    default: 'none',
    description: 'How to log in to the brokers.',
  }),
  sasl_username: optional({ description: 'User name for the brokers.' }),
  sasl_password: optional({ description: 'Password for the brokers.', secret: true }),
  compression: choice(['lz4', 'none'], {
    default: 'lz4',
    description:
      'How records are packed for the brokers, eight of them or more at once. `none` for consumers that do not ' +
      'read LZ4.',
  }),
  partitions: whole(1, 1_024, {
    default: 6,
    unit: 'partitions',
    description: 'Partitions of the topics that have many; fixed when they are created.',
  }),
  chain: optional({ description: 'Id of the chain that the control topic must hold; another one stops the start.' }),
})

const Log = section({
  durability: choice(['process', 'host', 'log'], {
    default: 'process',
    description:
      'What an outcome survives before the client sees the last byte: the process, the host, or only ' +
      'acknowledged by the brokers.',
  }),
  retention_hours: whole(1, 87_600, {
    default: 168,
    unit: 'hours',
    description: 'How long requests, operations and budgets are kept in the log.',
  }),
  max_backlog_mb: whole(16, 1_048_576, {
    default: 8_192,
    unit: 'MiB',
    description: 'Outcomes waiting on disk, in MiB; beyond it no request is admitted.',
  }),
  kafka: Kafka,
})

const Telemetry = section({
  prometheus_enabled: flag({ default: true, description: 'Serve `/metrics`.' }),
  otlp_endpoint: optionalUrl({
    description:
      'OpenTelemetry collector (OTLP/HTTP, JSON) for traces; `/v1/traces` is added. None: ' +
      '`OTEL_EXPORTER_OTLP_ENDPOINT`, else traces are off.',
    format: 'gateway-collector-url',
    expects: 'a URL such as http://collector:4318',
  }),
  otlp_headers: optional({
    description: 'Headers for the collector, values percent-encoded.',
    format: 'gateway-header-pairs',
    expects: 'name=value,name=value',
    secret: true,
  }),
  trace_sample_percent: whole(0, 100, {
    default: 100,
    unit: '%',
    description: 'Of the traces that begin here, how many are exported; a `traceparent` says it for its own.',
  }),
  trace_upstream: flag({ default: true, description: 'Send `traceparent` to providers while traces are on.' }),
})

export const ConfigSchema = section({
  server: Server,
  data: section({ dir: text({ default: '.gateway', description: 'Folder for everything kept on this machine.' }) }),
  log: Log,
  database: section({
    url: optionalUrl({
      description: 'Postgres for analytics. None: an embedded one in `data.dir`.',
      format: 'gateway-postgres-url',
      expects: 'a URL such as postgres://user:password@host:5432/gateway (in the password / ? # % are %2F %3F %23 %25)',
    }),
  }),
  redis: section({
    url: optionalUrl({
      description: 'Redis for shared rate limits and cache. None: in this process.',
      format: 'gateway-redis-url',
      expects: 'a URL such as redis://host:6379 or rediss://user:password@host:6379/1',
    }),
  }),
  security: section({
    master_key: optional({
      description:
        'Key that wraps all data keys: 32 random bytes in base64. Required with Kafka; embedded, one is made in ' +
        '`data.dir`.',
      format: 'gateway-master-key',
      expects: '32 bytes in base64 (openssl rand -base64 32)',
      secret: true,
    }),
    accepted_master_keys: t.Array(t.String({ format: 'gateway-master-key' }), {
      default: [],
      description:
        'Master keys that are accepted beside it: the next one before a rotation, the one before until `gateway ' +
        'keys rotate` has wrapped everything anew.',
      expects: 'a list of keys, each of 32 bytes in base64',
      maxItems: 8,
      secret: true,
    }),
    env_bindings: texts({
      default: [],
      description:
        'Environment variables that a provider may name in `api_key_env`, beside the usual ones of the kinds and ' +
        '`PROVIDER_*`.',
      format: 'gateway-env-binding',
      expects: 'a list of names of variables, never GATEWAY_* and MASTER_KEY',
    }),
  }),
  setup: choice(['on', 'off'], {
    default: 'on',
    description:
      'Whether the first operator can still be made at `/admin/v1/auth/setup`. `off` for installations that use ' +
      'keys alone.',
  }),
  auth: Auth,
  admin: section({ enabled: flag({ default: true, description: 'Serve `/admin/v1`.' }) }),
  telemetry: Telemetry,
  diagnostics: section({
    level: choice(['debug', 'info', 'warn', 'error'], {
      default: 'info',
      description: 'Least level that is written to stderr.',
    }),
  }),
  tools: section({
    gateway_execution: flag({
      default: false,
      description:
        'Let the gateway run safe tools itself. Not possible yet: `automatic` is clamped to `manual`, and ' +
        'refused with `stream: true`.',
    }),
  }),
  cookie_secure: flag({
    default: false,
    description: 'Mark the session cookie `Secure` also when the request came without TLS.',
  }),
  egress: section({
    allow_private: t.Union([t.Boolean(), t.Null()], {
      default: null,
      description: 'Allow upstreams on loopback and private addresses. Unset: only while `server.host` is loopback.',
    }),
  }),
  health: section({
    probe_interval: durationOrOff('5s', MOST_DURATION, {
      default: '60s',
      such: '60s',
      description: 'How often each provider that can list its models is asked for them, to know its health.',
    }),
  }),
  worker: section({
    enabled: flag({ default: true, description: '`gateway start` runs a projection worker as a child.' }),
    request_days: whole(1, 36_500, {
      default: 90,
      unit: 'days',
      description:
        'Days that single requests stay in Postgres, never fewer than the log holds them. Usage by hour and day ' +
        'stays for ever.',
    }),
  }),
  environment: text({ default: 'local', description: 'Name of this installation, shown by `/version`.' }),
  bootstrap: t.Object(
    {},
    {
      default: {},
      additionalProperties: true,
      description:
        'Tenants, keys, providers, models, policies, endpoint scopes, overrides, budgets, cache rules, tools and ' +
        'price corrections to seed at start.',
      expects: 'a section of the file',
    },
  ),
})

export type Config = Omit<Static<typeof ConfigSchema>, 'bootstrap'> & { bootstrap: Record<string, unknown> }

export interface LoadedConfig {
  readonly config: Config
  /** Path -> `default`, the file's name, or the variable's. */
  readonly origins: ReadonlyMap<string, string>
  /** One line each. */
  readonly warnings: readonly string[]
}

/**
 * Variables that are no settings: where the file is, the commit of an image, the texts of first keys and of those that
 * the file names.
 */
const knownVariables = (values: Record<string, unknown>): readonly string[] => [
  ...['GATEWAY_CONFIG', 'GATEWAY_COMMIT', 'GATEWAY_BOOTSTRAP_ADMIN_KEY', 'GATEWAY_BOOTSTRAP_INFERENCE_KEY'],
  ...keyVariables((values as Pick<Config, 'bootstrap'>).bootstrap.keys),
]

/** Names of the variables in `bootstrap.keys`, which are not checked yet. */
const keyVariables = (keys: unknown): readonly string[] =>
  (Array.isArray(keys) ? keys : [])
    .map((key: { key_env?: unknown } | null) => key?.key_env)
    .filter((name) => typeof name === 'string')

/**
 * File and environment -> settings. Throws ConfigError with one line that names the key, what is wrong and the fix.
 */
export const loadConfig = (source: {
  file: { name: string; text: string } | null
  env: Readonly<Record<string, string | undefined>>
}): LoadedConfig & Pick<Settings, 'placeOf'> => {
  const { values, ...rest } = readSettings(ConfigSchema, { ...source, prefix: PREFIX, knownVariables })
  const config = values as Config
  checkTogether(config)
  return { config, ...rest }
}

/** Rules over more than one key. */
const checkTogether = ({ server, log, security }: Config): void => {
  if (log.kafka.brokers.length > 0 && security.master_key === null) {
    throw new ConfigError(
      'security.master_key is required with log.kafka.brokers: set GATEWAY_SECURITY_MASTER_KEY to 32 bytes in ' +
        'base64 (openssl rand -base64 32)',
    )
  }
  if (security.accepted_master_keys.length > 0 && security.master_key === null) {
    throw new ConfigError(
      'security.accepted_master_keys stand beside security.master_key: set it, or leave the rotation to `gateway ' +
        'keys rotate`, which keeps them in data.dir',
    )
  }
  if (log.kafka.sasl_mechanism !== 'none' && (log.kafka.sasl_username === null || log.kafka.sasl_password === null)) {
    throw new ConfigError(
      `log.kafka.sasl_mechanism ${log.kafka.sasl_mechanism} needs log.kafka.sasl_username and ` +
        `log.kafka.sasl_password: set both`,
    )
  }
  if (log.durability === 'log' && log.kafka.brokers.length === 0) {
    throw new ConfigError(
      'log.durability "log" waits for the brokers and needs log.kafka.brokers: set them, or use "host"',
    )
  }
  checkServer(server)
}

/** The bytes of `security.master_key` and of those accepted beside it; null when it is not set. */
export const masterKeysOf = ({ security }: Pick<Config, 'security'>): readonly [Uint8Array, ...Uint8Array[]] | null => {
  const bytesOf = (text: string) => new Uint8Array(Buffer.from(text, 'base64'))
  const { master_key: current, accepted_master_keys: accepted } = security
  return current === null ? null : [bytesOf(current), ...accepted.map(bytesOf)]
}

/** A duration setting in milliseconds; null for `off`. The schema has checked it. */
export const settingMs = (value: string): number | null => durationMs(value)

/** Whether an address or name stands for this machine only. */
export const isLoopback = (host: string): boolean =>
  host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host)

export const allowsPrivate = (config: Config): boolean => config.egress.allow_private ?? isLoopback(config.server.host)

/** A stop that load balancers have to notice: other instances serve as well, or other machines are clients. */
const NOTICED_GRACE_MS = 5_000

/** How long a stop still takes requests. */
export const shutdownGraceMs = ({ server, log }: Pick<Config, 'server' | 'log'>): number => {
  if (server.shutdown_grace !== null) return settingMs(server.shutdown_grace) ?? 0
  return log.kafka.brokers.length > 0 || !isLoopback(server.host) ? NOTICED_GRACE_MS : 0
}

/** Every key, in the order of the schema. */
export const LEAVES = leavesOf(ConfigSchema, PREFIX)

const shown = ({ path, secret, holdsUrl }: Leaf, value: unknown): unknown => {
  if (path === 'bootstrap') return Object.keys(value as object)
  if (secret && Array.isArray(value)) return value.map(() => '[redacted]')
  if (!secret || typeof value !== 'string') return value
  return holdsUrl ? redactedUrl(value) : '[redacted]'
}

/** The effective settings by path, secrets redacted: for `/admin/v1/system` and `gateway config --print`. */
export const redacted = (config: Config): Record<string, unknown> =>
  Object.fromEntries(LEAVES.map((leaf) => [leaf.path, shown(leaf, getPath(config, leaf.path))]))

/** `path = value   # where it comes from`, one line for each key. */
export const printed = ({ config, origins }: LoadedConfig): string => {
  const values = redacted(config)
  const lines = LEAVES.map(({ path }) => `${path} = ${JSON.stringify(values[path])}`)
  const width = Math.min(60, Math.max(...lines.map((line) => line.length)))
  return LEAVES.map(({ path }, i) => `${lines[i]!.padEnd(width)}  # ${origins.get(path)}`).join('\n')
}
