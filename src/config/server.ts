// The settings of the port: where it listens, which proxies it trusts, how long it waits, how much it takes.
import { rangeError } from '../lib/http/forwarded.ts'
import type { Static } from '../lib/schema/schema.ts'
import {
  choice,
  duration,
  durationOrOff,
  durationOrUnset,
  flag,
  MOST_DURATION,
  optional,
  section,
  text,
  texts,
  whole,
} from '../lib/settings/kinds.ts'
import { ConfigError } from '../lib/settings/settings.ts'

export const Server = section({
  host: text({
    default: '127.0.0.1',
    description: 'Address to listen on. `0.0.0.0` for all.',
    format: 'gateway-host',
    expects: 'an address or a name, without scheme, brackets and port, such as 127.0.0.1 or ::1',
  }),
  port: whole(0, 65_535, { default: 8080, description: 'Port to listen on. `0` takes a free one.' }),
  listener: choice(['own', 'bun'], {
    default: 'own',
    description:
      'HTTP server of the port: the one of the gateway, or `Bun.serve` of the runtime (see docs/settings.md).',
  }),
  processes: whole(1, 64, {
    default: 1,
    unit: 'processes',
    description: 'Gateway processes that share the port (Linux).',
  }),
  trusted_proxies: texts({
    default: [],
    description:
      'Addresses or CIDR ranges of proxies whose `X-Forwarded-For`, `-Proto` and `-Host` count: for lockouts, the ' +
      'session cookie, the check of `Host` and who needs the token of the first set-up.',
  }),
  allowed_hosts: texts({
    default: [],
    description:
      'Names, with or without a port, by which `/admin/v1` may be addressed, beside those of loopback, the address ' +
      'listened on and `server.public_url`. Other names are 403 once one is set, and always while `server.host` is ' +
      'loopback. A proxy that rewrites `Host` to an internal name needs that name here.',
    format: 'gateway-allowed-host',
    expects: 'a list of names such as gateway.example.com or gateway.example.com:8443, without a scheme',
  }),
  public_url: optional({
    description: 'URL by which clients reach the gateway: its name is allowed, and the start prints links with it.',
    format: 'gateway-public-url',
    expects: 'a URL such as https://gateway.example.com, without user, query and fragment',
  }),
  cors_origins: texts({
    default: [],
    description:
      'Origins of web pages that may call `/v1` from a browser, as browsers send them, or `*` for all. Never holds ' +
      'for `/admin/v1`.',
    format: 'gateway-origin',
    expects: 'a list of origins such as https://app.example.com, without a path, or *',
  }),
  docs: flag({ default: true, description: 'Serve `/openapi.json`, `/docs` and `/schemas`, to anybody.' }),
  drain: duration('0s', MOST_DURATION, {
    default: '30s',
    description: 'How long a stop waits for requests in flight.',
  }),
  shutdown_grace: durationOrUnset('0s', '10m', {
    such: '5s',
    description:
      'How long a stop still takes requests while `/ready` is 503, so that load balancers notice; then `drain` ' +
      'begins. Unset: 5 s with Kafka or when `host` is not loopback, else 0.',
  }),
  body_timeout: duration('1s', MOST_DURATION, {
    default: '20s',
    description: 'How long a client may take to send the body of a chat completion; then 408.',
  }),
  idle_timeout: duration('30s', '4m', {
    default: '75s',
    description:
      'How long a connection stays open while its client neither reads nor asks: longer than that of a load ' +
      'balancer in front.',
  }),
  max_event_loop_delay: durationOrOff('10ms', MOST_DURATION, {
    default: '200ms',
    such: '200ms',
    description:
      'How late the event loop may be, on the average of about a second, before new chat completions are refused ' +
      'with 429.',
  }),
  max_memory_mb: whole(0, 1_048_576, {
    default: 0,
    unit: 'MiB',
    description:
      'Resident memory of a process in MiB above which new chat completions are refused with 429. `0`: four ' +
      'fifths of what the machine or container has, shared by `server.processes`.',
  }),
})

/** Rules over more than one key. Throws ConfigError. */
export const checkServer = (server: Static<typeof Server>): void => {
  for (const range of server.trusted_proxies) {
    const problem = rangeError(range)
    if (problem !== null) throw new ConfigError(`server.trusted_proxies: "${range}" cannot be used: ${problem}`)
  }
  if (server.processes > 1 && server.port === 0) {
    throw new ConfigError('server.port 0 cannot be shared by server.processes: set a port')
  }
}
