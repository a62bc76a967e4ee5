// A request of the OpenAI shape while it is edited: the client's own bytes, the edits to them, and the notes about
// them.
import { appendMembers, type Edit, editMembers, type Member, quoted, setMember, topLevel } from '../../lib/json/edit.ts'
import type { ChatCall, Target } from '../port.ts'

const REMOVE: Edit = { do: 'remove' }

export class RequestDraft {
  readonly shaping: string[] = []
  /** Parsed on access: most requests are sent as they came. */
  #members: readonly Member[] | null = null
  /** Created with the first edit. */
  #edits: Map<string, Edit> | null = null
  /** No edit changes members of the client: additions follow them. */
  #onlyAdds = true

  constructor(
    readonly call: ChatCall,
    readonly target: Target,
  ) {}

  /** The client sent it, and no edit changed it yet. */
  has(name: string): boolean {
    return this.call.body[name] !== undefined && this.#edits?.has(name) !== true
  }

  /** The client's value of this member, parsed; undefined when it was not sent. */
  valueOf(name: string): unknown {
    return this.call.body[name]
  }

  /** The same in the client's own bytes, or as an edit has set it; null when it was not sent. */
  textOf(name: string): string | null {
    const edit = this.#edits?.get(name)
    if (edit?.do === 'set') return edit.json
    this.#members ??= topLevel(this.call.raw)
    const members = this.#members
    for (let i = members.length - 1; i >= 0; i--)
      if (members[i]!.key === name) return this.call.raw.slice(members[i]!.valueStart, members[i]!.valueEnd)
    return null
  }

  /** Replaces the value, or adds the member. `json` is JSON text. */
  set(name: string, json: string, note: string | null): void {
    this.#edit(name, { do: 'set', json })
    if (note !== null) this.shaping.push(note)
  }

  remove(name: string): void {
    this.#edit(name, REMOVE)
  }

  drop(name: string, why = ''): void {
    this.remove(name)
    this.shaping.push(`dropped ${name}${why}`)
  }

  /** Keeps the value's bytes. */
  rename(name: string, to: string): void {
    this.#edit(name, { do: 'rename', to })
    this.shaping.push(`renamed ${name} to ${to}`)
  }

  #edit(name: string, edit: Edit): void {
    this.#edits ??= new Map()
    this.#edits.set(name, edit)
    if (edit.do !== 'set' || this.call.body[name] !== undefined) this.#onlyAdds = false
  }

  /** The body to send. */
  text(): string {
    const { raw, body } = this.call
    const model = JSON.stringify(this.target.upstreamModel)
    const edits = this.#edits
    if (edits !== null && !this.#onlyAdds) {
      edits.set('model', { do: 'set', json: model })
      return editMembers(raw, edits, this.#members ?? undefined)
    }
    const text = setMember(raw, 'model', model, keysOf(body))
    return edits === null ? text : appendMembers(text, membersOf(edits))
  }
}

/** What `set` edits add, as the JSON text of members. */
const membersOf = (edits: ReadonlyMap<string, Edit>): string => {
  let text = ''
  for (const [name, edit] of edits)
    if (edit.do === 'set') text += `${text === '' ? '' : ','}${quoted(name)}:${edit.json}`
  return text
}

const keysOf = (body: ChatCall['body']): number => {
  let count = 0
  for (const _ in body) count++
  return count
}
