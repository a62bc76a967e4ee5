// What a client says in the upstream's own words, beside the client's wire. It is passed on as it is, but for what the gateway counts, checks and authorises by
// the client's wire: how many tokens and answers, which tools, which model, what messages. That is said there or nowhere (docs/decisions/0018).
import { isLongNumber } from '../lib/exact-json.ts'
import { GatewayError } from '../wire/errors.ts'
import { isObject } from '../wire/json.ts'
import { arrayOf, type Json, objectOf } from './read-json.ts'

/** Names under which some upstream takes such a thing, without their case and underscores -> the client's name of it. */
const SAID_AS: Readonly<Record<string, string>> = {
  model: 'model',
  models: 'model',
  modelid: 'model',
  fallbacks: 'model',
  messages: 'messages',
  contents: 'messages',
  systeminstruction: 'messages',
  maxtokens: 'max_tokens',
  maxcompletiontokens: 'max_completion_tokens',
  maxoutputtokens: 'max_tokens',
  maxnewtokens: 'max_tokens',
  maxtokencount: 'max_tokens',
  maxtokenstosample: 'max_tokens',
  maxgenlen: 'max_tokens',
  maxlength: 'max_tokens',
  npredict: 'max_tokens',
  numpredict: 'max_tokens',
  n: 'n',
  bestof: 'n',
  candidatecount: 'n',
  ncmpl: 'n',
  numgenerations: 'n',
  numresults: 'n',
  tools: 'tools',
  toolconfig: 'tools',
  functiondeclarations: 'tools',
  mcpservers: 'tools',
  functions: 'functions',
  functioncall: 'function_call',
  toolchoice: 'tool_choice',
  functioncallingconfig: 'tool_choice',
}
const CLIENT_NAMES = new Set(Object.values(SAID_AS))
/** Containers of containers are looked into so far. */
const MOST_DEPTH = 3

const plainName = (name: string): string => name.toLowerCase().replaceAll('_', '')

/** The client's field that says what this one would say; null when there is none, or when it is that field. */
export const clientNameOf = (name: string): string | null => {
  if (CLIENT_NAMES.has(name)) return null
  const plain = plainName(name)
  return Object.hasOwn(SAID_AS, plain) ? SAID_AS[plain]! : null
}

/** Where notes go: kinds collect them in a list or in a set. */
export type Note = (text: string) => void

/** Fields of neither wire, as the client sent them. Another spelling of a field that is handled is none of them: servers written in Go would read it. */
export const ownFields = (body: Json, handled: ReadonlySet<string>, note: Note): Record<string, unknown> => {
  const kept = Object.entries(body).filter(([name]) => {
    if (handled.has(name)) return false
    const lower = name.toLowerCase()
    const field = clientNameOf(name) ?? (handled.has(lower) ? lower : null)
    if (field !== null) note(`dropped ${name.slice(0, 40)}: use ${field}`)
    return field === null
  })
  return Object.fromEntries(kept)
}

/** The members of such a field that is an object, without those that say what the client's wire says; empty when it was not sent. */
export const ownMembers = (value: unknown, path: string, note: Note): Record<string, unknown> => {
  if (value !== undefined && value !== null && (!isObject(value) || isLongNumber(value)))
    throw new GatewayError('invalid_request', `${path} must be an object`, { param: path })
  return membersOf(objectOf(value), path, note, 1)
}

const membersOf = (value: Json, path: string, note: Note, depth: number): Record<string, unknown> => {
  const kept = Object.entries(value).flatMap(([name, member]): [string, unknown][] => {
    const at = `${path}.${name.slice(0, 40)}`
    const plain = plainName(name)
    if (Object.hasOwn(SAID_AS, plain)) {
      note(`dropped ${at}: use ${SAID_AS[plain]}`)
      return []
    }
    const goesOn = depth < MOST_DEPTH && isObject(member) && !isLongNumber(member)
    return [[name, goesOn ? membersOf(member, at, note, depth + 1) : member]]
  })
  return Object.fromEntries(kept)
}

/** The stop sequences of both wires together, each once; null without any. `own`: those in the upstream's own words, by their `name` there. Some take no blank ones. */
export const stopsOf = (
  stop: unknown,
  own: unknown,
  name: string,
  note: Note,
  takesBlank = true,
): readonly unknown[] | null => {
  const isTaken = (text: unknown) => takesBlank || typeof text !== 'string' || text.trim() !== ''
  const sent = [...listOf(stop), ...arrayOf(own)]
  const taken = sent.filter(isTaken)
  if (taken.length < sent.length) note('dropped blank stop sequences')
  if (listOf(stop).some(isTaken) && arrayOf(own).length > 0) note(`merged stop into ${name}`)
  else if (listOf(stop).some(isTaken) && !name.endsWith('.stop')) note(`renamed stop to ${name}`)
  return taken.length === 0 ? null : [...new Set(taken)]
}

/** `stop` is one text or a list of them. */
const listOf = (stop: unknown): readonly unknown[] => {
  if (stop === undefined || stop === null) return []
  return Array.isArray(stop) ? stop : [stop]
}
