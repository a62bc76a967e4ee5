// The settings of authentication: which header carries the key, what is no key, how old the known state of keys may be.

import { MINTED_KEY_LENGTH } from '../lib/crypto/ids.ts'
import { FormatRegistry } from '../lib/schema/schema.ts'
import { duration, durationOrOff, MOST_DURATION, section, text, whole } from '../lib/settings/kinds.ts'
import { CONFIRM_EVERY_MS, LEAST_MAX_STALENESS_MS } from '../lib/time/confirm-period.ts'
import { mayCarryKey } from './key-header.ts'

FormatRegistry.Set('gateway-key-header', mayCarryKey)

const seconds = (ms: number): string => `${ms / 1_000}s`
const LEAST_MAX_STALENESS = seconds(LEAST_MAX_STALENESS_MS)

export const Auth = section({
  cache_ttl: duration('0s', MOST_DURATION, {
    default: '30s',
    description:
      'Upper bound on how long a validated key may be used without being looked up again. Every request looks it ' +
      'up in memory.',
  }),
  min_key_length: whole(1, MINTED_KEY_LENGTH, {
    default: 20,
    unit: 'characters',
    description: 'Shorter keys are refused before lookup.',
    expects:
      `a whole number from 1 to ${MINTED_KEY_LENGTH} (the keys that the gateway ` +
      `makes have ${MINTED_KEY_LENGTH} characters: beyond it none of them works)`,
  }),
  header_name: text({
    default: 'Authorization',
    description: 'Header that carries the key.',
    format: 'gateway-key-header',
    expects:
      'a header name that HTTP, proxies and the gateway do not use for anything else, such as Authorization or ' +
      'X-Api-Key',
  }),
  max_staleness: durationOrOff(LEAST_MAX_STALENESS, MOST_DURATION, {
    default: 'off',
    such: '60s',
    description: 'Refuse requests when the end of the log has not been confirmed for this long; `/ready` is 503 then.',
    expects:
      `off, or a duration from ${LEAST_MAX_STALENESS} to ${MOST_DURATION} such as 60s (the end is ` +
      `confirmed every ${seconds(CONFIRM_EVERY_MS)}: less refuses requests while all is well)`,
  }),
})
