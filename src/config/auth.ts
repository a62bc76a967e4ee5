// The settings of the door: which header carries the key, what is no key, how old may be what is known of keys.
import { MINTED_KEY_LENGTH } from '../lib/ids.ts'
import { t } from '../lib/schema.ts'
import { duration, section, text, whole } from '../lib/setting.ts'

export const Auth = section({
  cache_ttl: duration({
    default: '30s',
    description:
      'Upper bound on how long a validated key may be used without being looked up again. Every request looks it up in memory.',
  }),
  min_key_length: whole(1, MINTED_KEY_LENGTH, {
    default: 20,
    description: 'Shorter keys are refused before lookup.',
    expects: `a whole number from 1 to ${MINTED_KEY_LENGTH} (the keys that the gateway makes have ${MINTED_KEY_LENGTH} characters: beyond it none of them works)`,
  }),
  header_name: text({
    default: 'Authorization',
    description: 'Header that carries the key.',
    pattern: '^[A-Za-z0-9-]+$',
    expects: 'a header name',
  }),
  max_staleness: t.Union([t.Literal('off'), duration({ default: 'off', description: '' })], {
    default: 'off',
    description: 'Refuse requests when the end of the log has not been confirmed for this long.',
    expects: 'off, or a duration such as 60s',
  }),
})
