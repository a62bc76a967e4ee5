// Edits to requests that are more than dropping or renaming a field, for the rows that need them.
import { type Edit, editMembers, memberText } from '../../lib/json/edit.ts'
import { editElements } from '../../lib/json/elements.ts'
import { isObject } from '../../wire/json.ts'
import { arrayOf, objectOf, textOf } from '../shared/read-json.ts'
import type { RequestDraft } from './draft.ts'

const NO_NAME: ReadonlyMap<string, Edit> = new Map([['name', { do: 'remove' }]])

/** Groq refuses a name in a message. */
export const withoutNames = (draft: RequestDraft): void => {
  const messages = arrayOf(draft.valueOf('messages'))
  const isNamed = (message: unknown) => isObject(message) && message.name !== undefined
  const text = messages.some(isNamed) ? draft.textOf('messages') : null
  if (text === null) return
  const json = editElements(text, (message, i) => (isNamed(messages[i]) ? editMembers(message, NO_NAME) : null))
  draft.set('messages', json, 'dropped messages[].name')
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
