// Edits to requests that are more than dropping or renaming a field, for the rows that need them.
import { type Edit, editMembers, memberText } from '../../lib/json/edit.ts'
import { editElements } from '../../lib/json/elements.ts'
import { isObject } from '../../wire/json.ts'
import { arrayOf, objectOf, textOf } from '../shared/read-json.ts'
import type { RequestDraft } from './draft.ts'

/** Sets the messages with an edit to each that `isMeant`; unchanged ones keep their bytes. */
const editMessages = (
  draft: RequestDraft,
  isMeant: (message: unknown) => boolean,
  editsOf: (message: string) => ReadonlyMap<string, Edit>,
  note: string,
): void => {
  const messages = arrayOf(draft.valueOf('messages'))
  const text = messages.some(isMeant) ? draft.textOf('messages') : null
  if (text === null) return
  const json = editElements(text, (message, i) =>
    isMeant(messages[i]) ? editMembers(message, editsOf(message)) : null,
  )
  draft.set('messages', json, note)
}

const NO_NAME: ReadonlyMap<string, Edit> = new Map([['name', { do: 'remove' }]])
const isNamed = (message: unknown): boolean => isObject(message) && message.name !== undefined

/** Groq refuses a name in a message. */
export const withoutNames = (draft: RequestDraft): void =>
  editMessages(draft, isNamed, () => NO_NAME, 'dropped messages[].name')

const SYSTEM: ReadonlyMap<string, Edit> = new Map([['role', { do: 'set', json: '"system"' }]])
const isDeveloper = (message: unknown): boolean => isObject(message) && message.role === 'developer'

/** An assistant message whose only content is its refusal. */
const isRefusal = (message: unknown): boolean =>
  isObject(message) &&
  typeof message.refusal === 'string' &&
  (message.content === null || message.content === undefined) &&
  arrayOf(message.tool_calls).length === 0

/**
 * The role `developer` and refusals are OpenAI's alone: `system` means the same as the one, a text says the same as the
 * other.
 */
export const withoutOwnMessages = (draft: RequestDraft): void => {
  editMessages(draft, isDeveloper, asSystem, 'made developer messages system messages')
  editMessages(draft, isRefusal, asText, 'made refusals of messages their content')
}

const asSystem = (): ReadonlyMap<string, Edit> => SYSTEM
const asText = (message: string): ReadonlyMap<string, Edit> =>
  new Map<string, Edit>([
    ['refusal', { do: 'remove' }],
    ['content', { do: 'set', json: memberText(message, 'refusal')! }],
  ])

/** What asks nothing of a model without tools. */
const WITHOUT_TOOLS: readonly (readonly [name: string, values: readonly unknown[]])[] = [
  ['parallel_tool_calls', [false, true]],
  ['tool_choice', ['none', 'auto']],
]

/** An empty list of tools is refused by OpenAI, and what belongs to tools is refused without them. */
export const withoutEmptyTools = (draft: RequestDraft): void => {
  const tools = draft.valueOf('tools')
  if (Array.isArray(tools) && tools.length > 0) return
  if (draft.has('tools')) draft.drop('tools', ': none are declared')
  for (const [name, values] of WITHOUT_TOOLS)
    if (draft.has(name) && values.includes(draft.valueOf(name))) draft.drop(name, ': no tools are declared')
}

/** Together takes the number of alternatives as `logprobs`. */
export const countedLogprobs = (draft: RequestDraft): void => {
  const { logprobs, top_logprobs: top } = draft.call.body
  if (typeof logprobs !== 'boolean' || !draft.has('logprobs')) return
  if (draft.has('top_logprobs')) draft.drop('top_logprobs', ': logprobs counts')
  if (logprobs) draft.set('logprobs', `${typeof top === 'number' && top > 0 ? top : 1}`, 'made logprobs a count')
  else draft.drop('logprobs')
}

const JSON_OBJECT = '{"type":"json","value":{"type":"object"}}'

/** TGI takes `stop` as a list only, and the schema of an answer as the `value` of its format. */
export const tgiShape = (draft: RequestDraft): void => {
  if (typeof draft.valueOf('stop') === 'string' && draft.has('stop'))
    draft.set('stop', `[${draft.textOf('stop')}]`, 'made stop a list')
  const format = objectOf(draft.valueOf('response_format'))
  if (!draft.has('response_format') || format.value !== undefined) return
  const type = textOf(format.type)
  if (type === 'text') draft.drop('response_format', ': text is the default')
  else if (type === 'json_object') draft.set('response_format', JSON_OBJECT, 'made response_format a grammar')
  else if (type === 'json_schema' && isObject(objectOf(format.json_schema).schema)) {
    const schema = memberText(memberText(draft.textOf('response_format')!, 'json_schema')!, 'schema')
    draft.set('response_format', `{"type":"json","value":${schema}}`, 'made response_format a grammar')
  }
}
