// The kinds of settings, of which a schema of settings is composed.

import { FormatRegistry, type TSchema, t } from '../schema/schema.ts'
import { durationMs } from '../time/duration.ts'

/**
 * Longest duration. Timers hold at most 2^31 ms (24.8 days) and fire at once beyond that; some durations are extended
 * by a random fifth, or by the seconds of a following step.
 */
export const MOST_DURATION = '480h'

/** The description of a key: everything but its type. */
interface About {
  readonly default: unknown
  readonly description: string
  /** What a value must be, as text, where the type does not state it. */
  readonly expects?: string
  /** What a number counts: `MiB`, `hours`. */
  readonly unit?: string
}

export const section = <Properties extends Record<string, TSchema>>(properties: Properties) =>
  t.Object(properties, { additionalProperties: false })
export const text = (about: About & { pattern?: string; format?: string; secret?: boolean }) =>
  t.String({ minLength: 1, ...about })
export const optional = (about: Omit<About, 'default'> & { format?: string; pattern?: string; secret?: boolean }) => {
  const { description, expects, secret, ...rules } = about
  return t.Union([t.String({ minLength: 1, ...rules }), t.Null()], { default: null, description, expects, secret })
}
/** A URL that may contain a password, which is never shown. */
export const optionalUrl = (about: { description: string; expects: string; format: string }) => {
  const { description, expects, ...rules } = about
  const more = { default: null, description, expects, secret: true, holdsUrl: true }
  return t.Union([t.String({ minLength: 1, ...rules }), t.Null()], more)
}
export const whole = (minimum: number, maximum: number, about: About) => t.Integer({ minimum, maximum, ...about })
export const flag = (about: About) => t.Boolean(about)
/** `format`: of each item. */
export const texts = ({ format, ...about }: About & { format?: string }) =>
  t.Array(t.String({ minLength: 1, ...(format === undefined ? {} : { format }) }), about)
/** A duration within both bounds, which are durations as well. */
export const duration = (least: string, most: string, about: About) =>
  t.String({
    expects: `a duration from ${least} to ${most} such as ${about.default}`,
    ...about,
    format: between(least, most),
  })
/** The same, or `off`. `such`: an example. */
export const durationOrOff = (least: string, most: string, { such, ...about }: About & { such: string }) =>
  t.Union([t.Literal('off'), t.String({ format: between(least, most) })], {
    expects: `off, or a duration from ${least} to ${most} such as ${such}`,
    ...about,
  })

/** The same, or nothing: null stands for a default that depends on other settings. */
export const durationOrUnset = (
  least: string,
  most: string,
  { such, description }: { such: string; description: string },
) =>
  t.Union([t.String({ format: between(least, most) }), t.Null()], {
    default: null,
    description,
    expects: `a duration from ${least} to ${most} such as ${such}`,
  })

/** The name of the format of durations within these bounds. */
const between = (least: string, most: string): string => {
  const [leastMs, mostMs] = [durationMs(least)!, durationMs(most)!]
  const name = `gateway-duration-${least}-${most}`
  FormatRegistry.Set(name, (value) => {
    const ms = durationMs(value)
    return ms !== null && ms >= leastMs && ms <= mostMs
  })
  return name
}
export const choice = <Values extends string[]>(values: [...Values], about: About) =>
  t.Union(
    values.map((value) => t.Literal(value)),
    about,
  ) as unknown as TSchema & { static: Values[number] }
