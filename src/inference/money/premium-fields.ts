// Fields by which a client requests the same tokens at a higher price than the row of the model holds. That price is
// not known: where money is limited it is `no_price`, and the request is refused naming the field
// (docs/decisions/0014).
import { CLIENT_FIELDS, isContainer, plainName } from '../../providers/shared/vendor-fields.ts'
import { isObject } from '../../wire/json.ts'

type Body = Readonly<Record<string, unknown>>

interface PremiumRow {
  /** A path of at most two names. */
  readonly field: string
  /** Values at the price of the row, or below. */
  readonly plain: readonly string[]
  /** A number is not a service: it is the speed of speech. */
  readonly numbersArePlain?: true
  /** Kinds of upstream that read the field, so that it is sent to them. */
  readonly kinds: readonly string[]
}

const ROWS: readonly PremiumRow[] = [
  {
    field: 'service_tier',
    plain: ['auto', 'default', 'standard', 'standard_only', 'on_demand', 'flex', 'batch', ''],
    kinds: [
      ...['openai', 'azure_openai', 'openai_compatible', 'openrouter', 'groq', 'fireworks', 'together', 'xai'],
      ...['perplexity', 'cerebras', 'deepseek', 'gemini', 'bedrock'],
    ],
  },
  {
    field: 'speed',
    plain: ['standard', 'normal', ''],
    numbersArePlain: true,
    kinds: ['anthropic', 'bedrock', 'openrouter', 'openai_compatible'],
  },
  {
    field: 'inference_geo',
    plain: ['global', 'not_available', ''],
    kinds: ['anthropic', 'bedrock', 'openrouter', 'openai_compatible'],
  },
  { field: 'performanceConfig', plain: ['standard', ''], kinds: ['bedrock'] },
  // A client that chooses or orders the hosts of a model may choose a more expensive one than the listing has the price
  // of.
  { field: 'provider.sort', plain: ['price', 'none', 'model', ''], kinds: ['openrouter'] },
  ...['order', 'only', 'ignore', 'quantizations', 'preferred_min_throughput', 'preferred_max_latency'].map(
    (choice) => ({ field: `provider.${choice}`, plain: [''], kinds: ['openrouter'] }),
  ),
]
const plainPath = (field: string): string => field.split('.').map(plainName).join('.')
const BY_PATH: ReadonlyMap<string, PremiumRow> = new Map(ROWS.map((row) => [plainPath(row.field), row]))
/** Fields whose members have rows. */
const PARENTS: ReadonlySet<string> = new Set(
  [...BY_PATH.keys()].flatMap((path) => (path.includes('.') ? [path.slice(0, path.indexOf('.'))] : [])),
)

/** `"priority"`, `{"type": "priority"}`, `{"latency": "optimized"}` or a list; any other form is not plain. */
const isPlain = ({ plain, numbersArePlain }: PremiumRow, value: unknown): boolean => {
  if (value === undefined || value === null) return true
  const values = Array.isArray(value) ? value : isObject(value) ? Object.values(value) : [value]
  return values.every((each) =>
    typeof each === 'number' ? numbersArePlain : typeof each === 'string' && plain.includes(each.toLowerCase()),
  )
}

/**
 * The field of this body that makes an upstream of this kind more expensive than its row; null: none. `dropped`: fields
 * that the provider's `options.drop` removes.
 */
export const premiumField = (body: Body, kind: string, dropped: unknown): string | null => {
  for (const name in body) {
    if (CLIENT_FIELDS.has(name) || (Array.isArray(dropped) && dropped.includes(name))) continue
    const value = body[name]
    const field = plainName(name)
    if (isPremium(field, kind, value)) return name
    if (!isObject(value)) continue
    const member = PARENTS.has(field) ? premiumMember(value, field, kind) : undefined
    const inner = member ?? (isContainer(name) ? premiumField(value, kind, []) : null)
    if (inner !== null) return `${name}.${inner}`
  }
  return null
}

const premiumMember = (value: Body, field: string, kind: string): string | undefined =>
  Object.keys(value).find((at) => isPremium(`${field}.${plainName(at)}`, kind, value[at]))

const isPremium = (path: string, kind: string, value: unknown): boolean => {
  const row = BY_PATH.get(path)
  return row?.kinds.includes(kind) === true && !isPlain(row, value)
}
