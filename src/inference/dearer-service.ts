// Fields with which a client asks for the same tokens at a higher price than the row of the model says. Nobody knows that price: where money is limited it is
// `no_price`, and the request is refused naming the field (docs/decisions/0014).
import { CLIENT_FIELDS, isContainer, plainName } from '../providers/own-words.ts'
import { isObject } from '../wire/json.ts'

type Body = Readonly<Record<string, unknown>>

interface DearerRow {
  /** A path. */
  readonly field: string
  /** Values that cost what the row says, or less. */
  readonly plain: readonly string[]
  /** Whose upstream reads the field, so that it gets it. */
  readonly kinds: readonly string[]
}

const ROWS: readonly DearerRow[] = [
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
    kinds: ['anthropic', 'bedrock', 'openrouter', 'openai_compatible'],
  },
  {
    field: 'inference_geo',
    plain: ['global', 'not_available', ''],
    kinds: ['anthropic', 'bedrock', 'openrouter', 'openai_compatible'],
  },
  { field: 'performanceConfig', plain: ['standard', ''], kinds: ['bedrock'] },
]
const BY_NAME: ReadonlyMap<string, DearerRow> = new Map(ROWS.map((row) => [plainName(row.field), row]))

/** `"priority"`, `{"type": "priority"}` or `{"latency": "optimized"}`; what is none of these says nothing known. */
const isPlain = ({ plain }: DearerRow, value: unknown): boolean => {
  if (value === undefined || value === null) return true
  const said = isObject(value) ? Object.values(value) : [value]
  return said.every((word) => typeof word === 'string' && plain.includes(word.toLowerCase()))
}

/** The field of this body that makes an upstream of this kind dearer than its row says; null: none. `dropped`: fields that the provider's `options.drop` takes away. */
export const dearerField = (body: Body, kind: string, dropped: unknown): string | null => {
  for (const name in body) {
    if (CLIENT_FIELDS.has(name) || (Array.isArray(dropped) && dropped.includes(name))) continue
    const value = body[name]
    const row = BY_NAME.get(plainName(name))
    if (row?.kinds.includes(kind) && !isPlain(row, value)) return name
    const inner = isContainer(name) && isObject(value) ? dearerField(value, kind, []) : null
    if (inner !== null) return `${name}.${inner}`
  }
  return null
}
