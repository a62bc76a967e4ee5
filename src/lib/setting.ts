// The kinds of settings: what a schema of settings is put together from.
import { durationMs } from './duration.ts'
import { FormatRegistry, type TSchema, t } from './schema.ts'

FormatRegistry.Set('gateway-duration', (value) => durationMs(value) !== null)

/** How a key is described: everything but its type. */
interface About {
  readonly default: unknown
  readonly description: string
  /** What a value must be, in words, where the type does not say it. */
  readonly expects?: string
}

export const section = <Properties extends Record<string, TSchema>>(properties: Properties) =>
  t.Object(properties, { additionalProperties: false })
export const text = (about: About & { pattern?: string; format?: string; secret?: boolean }) =>
  t.String({ minLength: 1, ...about })
export const optional = (about: Omit<About, 'default'> & { format?: string; pattern?: string; secret?: boolean }) => {
  const { description, expects, secret, ...rules } = about
  return t.Union([t.String({ minLength: 1, ...rules }), t.Null()], { default: null, description, expects, secret })
}
/** A URL that may hold a password: it is shown without. */
export const optionalUrl = (about: { description: string; expects: string; format?: string; pattern?: string }) => {
  const { description, expects, ...rules } = about
  const more = { default: null, description, expects, secret: true, holdsUrl: true }
  return t.Union([t.String({ minLength: 1, ...rules }), t.Null()], more)
}
export const whole = (minimum: number, maximum: number, about: About) => t.Integer({ minimum, maximum, ...about })
export const flag = (about: About) => t.Boolean(about)
export const texts = (about: About) => t.Array(t.String({ minLength: 1 }), about)
export const duration = (about: About) =>
  t.String({ format: 'gateway-duration', expects: 'a duration such as 30s, 5m or 1h30m', ...about })
export const choice = <Values extends string[]>(values: [...Values], about: About) =>
  t.Union(
    values.map((value) => t.Literal(value)),
    about,
  ) as unknown as TSchema & { static: Values[number] }
