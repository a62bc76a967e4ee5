// Requests to Mistral: the OpenAI shape, with ids, parts and names of its own. Unchanged parts keep their bytes.
import { sha256Hex } from '../../lib/crypto/digest.ts'
import { type Edit, editMembers, memberText } from '../../lib/json/edit.ts'
import { editElements } from '../../lib/json/elements.ts'
import { isObject } from '../../wire/json.ts'
import { arrayOf, type Json, objectOf, textOf } from '../shared/read-json.ts'
import type { RequestDraft } from './draft.ts'

const OWN_ID = /^[A-Za-z0-9]{9}$/

/**
 * Ids of tool calls are nine letters and digits there: another id becomes nine digits of its digest, the same for the
 * call and its result.
 */
export const mistralId = (id: string): string => (OWN_ID.test(id) ? id : sha256Hex(id).slice(0, 9))

/**
 * Members of messages from answers of other vendors, or of the gateway for them. Mistral refuses a field that it does
 * not support with 422.
 */
// biome-ignore format: one list
const UNKNOWN_IN_MESSAGES = [
  'name', 'reasoning_content', 'reasoning', 'reasoning_details', 'refusal', 'annotations', 'audio', 'citations',
  'images', 'extra_content', 'parsed',
]

const NOT_PARSED: ReadonlyMap<string, Edit> = new Map([['parsed_arguments', { do: 'remove' }]])

type Edits = ReadonlyMap<string, Edit>
const NO_EDITS: Edits = new Map()
const one = (name: string, value: unknown): Edits => new Map([[name, { do: 'set', json: JSON.stringify(value) }]])

const setId = (name: string, id: unknown): Edits =>
  typeof id !== 'string' || OWN_ID.test(id) ? NO_EDITS : one(name, mistralId(id))

/** The part in Mistral's form, as JSON text; null when it needs no change. */
const partOf = (part: Json): string | null => {
  if (part.type === 'input_audio') {
    const data = textOf(objectOf(part.input_audio).data)
    return data === null ? null : JSON.stringify({ type: 'input_audio', input_audio: data })
  }
  if (part.type !== 'file') return null
  const { file_data, file_id, filename } = objectOf(part.file)
  if (typeof file_data === 'string') {
    const name = typeof filename === 'string' ? { document_name: filename } : {}
    return JSON.stringify({ type: 'document_url', document_url: file_data, ...name })
  }
  return typeof file_id === 'string' ? JSON.stringify({ type: 'file', file_id }) : null
}

const inMember = (message: string, name: string, change: (json: string, index: number) => string | null): Edits => {
  const text = memberText(message, name)!
  const changed = editElements(text, change)
  return changed === text ? NO_EDITS : new Map([[name, { do: 'set', json: changed }]])
}

/** Only its own members: none that an SDK or another vendor has added to the call. */
const callEdits = (json: string, call: Json, notes: Set<string>): Edits => {
  const edits = new Map(setId('id', call.id))
  if (edits.size > 0) notes.add('shortened ids of tool calls')
  if (call.extra_content !== undefined) {
    edits.set('extra_content', { do: 'remove' })
    notes.add('dropped messages[].tool_calls[].extra_content')
  }
  if (objectOf(call.function).parsed_arguments !== undefined) {
    edits.set('function', { do: 'set', json: editMembers(memberText(json, 'function')!, NOT_PARSED) })
    notes.add('dropped messages[].tool_calls[].function.parsed_arguments')
  }
  return edits
}

/** The message in Mistral's form, as JSON text; null when it needs no change. `notes` collects the changes. */
const messageOf = (json: string, message: Json, notes: Set<string>): string | null => {
  const edits = new Map<string, Edit>()
  const add = (more: Edits, note: string): void => {
    if (more.size === 0) return
    notes.add(note)
    for (const [name, edit] of more) edits.set(name, edit)
  }
  for (const name of UNKNOWN_IN_MESSAGES)
    if (message[name] !== undefined && !(name === 'name' && message.role === 'tool'))
      add(new Map([[name, { do: 'remove' }]]), `dropped messages[].${name}`)
  add(setId('tool_call_id', message.tool_call_id), 'shortened ids of tool calls')
  const { content, tool_calls: calls } = message
  // A null there has no meaning.
  if (message.function_call === null)
    add(new Map([['function_call', { do: 'remove' }]]), 'dropped messages[].function_call')
  if (Array.isArray(content)) {
    const changed = inMember(json, 'content', (_part, i) => partOf(objectOf(content[i])))
    add(changed, 'converted parts of messages')
  }
  if (Array.isArray(calls)) {
    const changed = inMember(json, 'tool_calls', (call, i) => {
      const edits = callEdits(call, objectOf(calls[i]), notes)
      return edits.size === 0 ? null : editMembers(call, edits)
    })
    for (const [name, edit] of changed) edits.set(name, edit)
  }
  return edits.size === 0 ? null : editMembers(json, edits)
}

/** Messages, tool choice and safe prompt. */
export const mistralShape = (draft: RequestDraft): void => {
  const messages = arrayOf(draft.valueOf('messages'))
  if (messages.length > 0) {
    const notes = new Set<string>()
    const text = draft.textOf('messages')!
    const changed = editElements(text, (json, i) => {
      const message = messages[i]
      return isObject(message) ? messageOf(json, message, notes) : null
    })
    if (changed !== text) {
      draft.set('messages', changed, null)
      draft.shaping.push(...notes)
    }
  }
  if (draft.valueOf('tool_choice') === 'required' && draft.has('tool_choice'))
    draft.set('tool_choice', '"any"', 'renamed tool_choice required to any')
  // Set by the operator as `options.safe_prompt`; a value of the client takes precedence.
  if (draft.target.options.safe_prompt === true && draft.valueOf('safe_prompt') === undefined)
    draft.set('safe_prompt', 'true', 'added safe_prompt')
}
