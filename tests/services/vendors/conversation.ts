// What the fake vendors understand of a request, whatever its wire, and what they answer: the same rules for all of
// them.

/**
 * A vendor's refusal, with its own status and words. Refusals are kept, so that a test can require that there are none.
 */
export class Refused extends Error {
  constructor(
    message: string,
    readonly status = 400,
  ) {
    super(message)
  }
}

/** Refuses unless it holds. */
export function need(holds: unknown, message: string, status = 400): asserts holds {
  if (!holds) throw new Refused(message, status)
}

export type Json = Readonly<Record<string, unknown>>
export const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export interface Received {
  readonly method: string
  readonly path: string
  readonly query: URLSearchParams
  readonly headers: Headers
  readonly text: string
  /** Null when there is none. */
  readonly body: Json | null
}

export interface Call {
  readonly id: string
  readonly name: string
  readonly args: Json
}
export interface Result {
  readonly id: string
  readonly text: string
}
export interface Tool {
  readonly name: string
  readonly parameters: unknown
}
export interface Turn {
  readonly role: 'user' | 'assistant'
  readonly text: string
  /** Media type and bytes of each image, or its address. */
  readonly images: readonly string[]
  readonly calls: readonly Call[]
  readonly results: readonly Result[]
}

export interface Asked {
  readonly model: string
  readonly stream: boolean
  /** The request wants usage in the stream, where its wire allows that. */
  readonly usage: boolean
  readonly system: string
  readonly turns: readonly Turn[]
  readonly tools: readonly Tool[]
  /** `name` forces one tool. */
  readonly choice: 'auto' | 'none' | 'required' | { readonly name: string }
  readonly single: boolean
  /** null: text. `json`: any object. */
  readonly format: null | 'json' | Json
}

export type Reply = { readonly text: string } | { readonly calls: readonly { name: string; args: Json }[] }

/** `data:` URLs and the like, as a person would name them. */
export const imageName = (mediaType: string, base64: string): string => {
  const bytes = Buffer.from(base64, 'base64')
  need(base64.length > 0 && bytes.toString('base64') === base64, 'the image is no base64')
  return `${mediaType} of ${bytes.length} bytes`
}

export const imageOfUrl = (url: unknown): string => {
  need(typeof url === 'string', 'an image needs a url')
  const [, type, data] = /^data:([\w/+.-]+);base64,(.+)$/.exec(url) ?? []
  if (type !== undefined) return imageName(type, data!)
  need(/^https:\/\/\S+$/.test(url), `an image of this address cannot be fetched: ${url.slice(0, 60)}`)
  return url
}

/** Every call has its result in the next turn, every result its call, and no undeclared tool is called. */
export const matchResults = (turns: readonly Turn[], tools: readonly Tool[] | null): void => {
  turns.forEach(({ calls, results }, i) => {
    const wanted = (turns[i - 1]?.calls ?? []).map(({ id }) => id)
    const given = results.map(({ id }) => id)
    need(new Set(given).size === given.length, 'two results of one call')
    for (const id of given) need(wanted.includes(id), `turn ${i}: a result of ${id}, which was not called before it`)
    for (const id of wanted) need(given.includes(id), `turn ${i}: the call ${id} has no result`)
    for (const { name } of calls)
      need(
        tools === null || tools.some((tool) => tool.name === name),
        `turn ${i}: ${name} was called, but is not declared`,
      )
  })
  need((turns.at(-1)?.calls.length ?? 0) === 0, 'the last calls have no results')
}

export const alternate = (turns: readonly Turn[]): void => {
  need(turns[0]?.role === 'user', 'the conversation must begin with the user')
  turns.forEach(({ role }, i) => {
    need(i === 0 || turns[i - 1]!.role !== role, `turn ${i}: two turns of the ${role} in a row`)
  })
}

const sample = (schema: unknown, city: string): unknown => {
  if (!isObject(schema)) return null
  if (Array.isArray(schema.enum)) return schema.enum[0]
  if (schema.type === 'object')
    return Object.fromEntries(
      Object.entries(isObject(schema.properties) ? schema.properties : {}).map(([name, one]) => [
        name,
        sample(one, city),
      ]),
    )
  if (schema.type === 'array') return [sample(schema.items, city)]
  if (schema.type === 'boolean') return true
  return schema.type === 'string' ? city : 21
}

const lastTurn = ({ turns }: Asked): Turn => {
  const last = turns.at(-1)
  need(last !== undefined && last.role === 'user', 'the last message must be from the user, or of a tool')
  return last
}

/** `Fail with rate_limited` requests the failure that the gateway maps to that code. */
export const failureAsked = (asked: Asked): string | null => /^Fail with (\w+)$/.exec(lastTurn(asked).text)?.[1] ?? null

/** `Break off` requests a stream that fails half way. */
export const asksForBreak = (asked: Asked): boolean => asked.stream && lastTurn(asked).text === 'Break off'

/** Cities are the words of the user after "in". */
export const replyTo = (asked: Asked): Reply => {
  const { text, images, results } = lastTurn(asked)
  const { tools, choice, single, format } = asked
  if (results.length > 0) return { text: `The tools said: ${results.map((result) => result.text).join('; ')}.` }
  const cities = [...text.matchAll(/\bin (\p{Lu}\p{L}+)/gu)].map(([, city]) => city!)
  const forced = typeof choice === 'object' || choice === 'required'
  if (tools.length > 0 && choice !== 'none' && (forced || cities.length > 0)) {
    const tool = typeof choice === 'object' ? tools.find(({ name }) => name === choice.name) : tools[0]
    need(tool !== undefined, 'tool_choice names a tool that is not declared')
    const places = cities.length === 0 ? ['Nowhere'] : single ? cities.slice(0, 1) : cities
    return { calls: places.map((city) => ({ name: tool.name, args: sample(tool.parameters, city) as Json })) }
  }
  if (format !== null) {
    const city = cities[0] ?? 'Nowhere'
    return { text: JSON.stringify(format === 'json' ? { city, celsius: 21 } : sample(format, city)) }
  }
  if (images.length > 0 && text.startsWith('What colour')) return { text: 'Red.' }
  if (images.length > 0) return { text: `I see ${images.join(' and ')}.` }
  return { text: `${asked.system === '' ? '' : `[${asked.system}] `}You said: ${text}` }
}

/** Small pieces, as a model speaks. */
export const pieces = (text: string, size = 5): string[] => {
  const units = [...text]
  return Array.from({ length: Math.ceil(units.length / size) }, (_, i) =>
    units.slice(i * size, (i + 1) * size).join(''),
  )
}

/** Reads the JSON text of a tool's arguments. */
export const objectText = (text: unknown, what: string): Json => {
  need(typeof text === 'string', `${what} must be a string`)
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new Refused(`${what} must be the text of a JSON object`)
  }
  need(isObject(value), `${what} must be the text of a JSON object`)
  return value
}
