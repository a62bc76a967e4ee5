// Streams of the OpenAI shape: each chunk is read for what the gateway needs and passed on as it came.
import { type Edit, editMembers } from '../../lib/json/edit.ts'
import type { Skimmer } from '../../lib/text/sse.ts'
import { isObject } from '../../wire/json.ts'
import type { Reading, SseEvent, StreamDecoder, StreamPart, Usage } from '../port.ts'
import { inBandFailure, malformed, reportsFailure } from '../shared/failure.ts'
import { generatedBytes } from '../shared/generated.ts'
import { arrayOf, type Json, objectOf, parseJson, textOf } from '../shared/read-json.ts'
import { skipUnreadable } from '../shared/unreadable.ts'
import {
  choicesOfDialect,
  type Dialect,
  hasError,
  mappedChoices,
  missingFields,
  STANDARD,
  usageEdit,
} from './answer.ts'
import { ends, hasContent, plainChoice, readChoices, wholeDeltas } from './chunk.ts'
import { ChunkTemplate } from './chunk-template.ts'
import { CallRepair } from './tool-calls.ts'

// Which choices of a stream have begun, and which of them have ended.

const MOST_CHOICES = 1_024

/** Which choices have begun, and which of them have their finish reason: with `n` above 1 they end one by one. */
export class FinishOfChoices {
  /** Whether choice 0, the only one of nearly every stream, has ended; null: it has not begun. */
  #first: boolean | null = null
  #others: Map<number, boolean> | null = null

  see(choices: readonly unknown[]): void {
    for (const value of choices) {
      const { index, finish_reason } = objectOf(value)
      this.seeOne(typeof index === 'number' ? index : 0, (textOf(finish_reason) ?? '') !== '')
    }
  }

  seeOne(index: number, ends: boolean): void {
    if (index === 0) {
      this.#first = ends || (this.#first ?? false)
      return
    }
    this.#others ??= new Map()
    if (this.#others.size >= MOST_CHOICES && !this.#others.has(index)) throw malformed('it has too many choices')
    if (ends || !this.#others.has(index)) this.#others.set(index, ends)
  }

  has(index: number): boolean {
    return index === 0 ? this.#first !== null : (this.#others?.has(index) ?? false)
  }

  allFinished(): boolean {
    if (this.#others === null) return this.#first === true
    for (const ends of this.#others.values()) if (!ends) return false
    return this.#first !== false
  }

  /** Those that have begun and have none, in the order of their indexes. */
  open(): number[] {
    const open = this.#first === false ? [0] : []
    for (const [index, ends] of this.#others ?? []) if (!ends) open.push(index)
    return open.sort((a, b) => a - b)
  }
}

// The role belongs to the first delta of a choice and to no other: without it the SDKs fold no choice, and repeated it
// adds up to `assistantassistant`.

export const hasRole = ({ role }: Json): boolean => typeof role === 'string' && role !== ''

const NAME = '"role"'
// biome-ignore format: as it may stand in an object: before another member, behind one
const SPELLINGS = ['"role":"assistant",', '"role": "assistant", ', ',"role":"assistant"', ', "role": "assistant"']

/**
 * The text of a chunk without its only role; null when the role cannot be distinguished from content. No JSON string
 * holds an unescaped quote.
 */
export const withoutRole = (data: string): string | null => {
  const at = data.indexOf(NAME)
  if (at === -1 || data.indexOf(NAME, at + NAME.length) !== -1) return null
  for (const spelling of SPELLINGS) {
    const start = at - spelling.indexOf(NAME)
    if (data.startsWith(spelling, start)) return data.slice(0, start) + data.slice(start + spelling.length)
  }
  return null
}

/**
 * Choices whose deltas have the role where they must and nowhere else; the same list when they did already. `begun`:
 * choices that had a delta before.
 */
export const withRoles = (choices: readonly unknown[], begun: { has(index: number): boolean }): readonly unknown[] => {
  let changed = false
  const right = choices.map((value) => {
    const choice = objectOf(value)
    const delta = objectOf(choice.delta)
    const isFirst = !begun.has(typeof choice.index === 'number' ? choice.index : 0)
    if (hasRole(delta) === isFirst) return value
    changed = true
    const { role: _, ...rest } = delta
    return { ...choice, delta: isFirst ? { role: 'assistant', ...rest } : rest }
  })
  return changed ? right : choices
}

const FIELD = 'data: '
/** The first chunks have the role or nothing; a stream without a plain chunk is not examined for ever. */
const MOST_LOOKS = 4

const NOTHING: readonly StreamPart[] = []
const NO_TOOLS: readonly string[] = []

type PartContent = Pick<StreamPart, 'text' | 'bytes' | 'content'>
const NO_CONTENT: PartContent = { text: '', bytes: 0, content: false }

const plainPart = (
  json: string,
  { text, bytes, content }: PartContent,
  finishReason: string | null,
  usage: Usage | null,
): StreamPart => ({
  json,
  content,
  text,
  bytes,
  finishReason,
  usage,
  usageOnly: false,
  toolNames: NO_TOOLS,
})

const runPart = (frames: string, bytes: number, usage: Usage | null): StreamPart => ({
  json: null,
  content: true,
  text: '',
  bytes,
  finishReason: null,
  usage,
  usageOnly: false,
  toolNames: NO_TOOLS,
  frames,
})

const WITHOUT_USAGE: ReadonlyMap<string, Edit> = new Map([['usage', { do: 'remove' }]])

/** Azure begins with a chunk about its filter, before the model has named the answer. */
const namesAnswer = ({ id }: Json): boolean => typeof id === 'string' && id !== ''

/** A class, not closures: one is made for each stream. */
class OpenAiStream implements StreamDecoder, Skimmer {
  unreadable = 0
  readonly skimmer = this
  readonly #template = new ChunkTemplate()
  readonly #choices = new FinishOfChoices()
  #calls: CallRepair | null = null
  /** The first chunk: the source of members that are added. */
  #head: Json | null = null
  /** Content that a client can show has come. */
  #hasContent = false
  #usage: Usage | null = null
  /** The stream has ended, or failed. */
  over = false
  /** It came with content: thrown after that is returned. */
  #failure: { readonly thrown: unknown } | null = null
  #looks = 0
  /** Parsed ahead, and read as an event next. */
  #looked: { readonly data: string; readonly chunk: unknown } | null = null

  constructor(
    private readonly reading: Reading | undefined,
    private readonly dialect: Dialect,
  ) {}

  get complete(): boolean {
    return this.#choices.allFinished()
  }

  skim(text: string, from: number): number {
    const template = this.#template
    if (template.isLearned || template.matches(text, from)) return template.skim(text, from)
    if (this.#looks < MOST_LOOKS && text.startsWith(FIELD, from)) this.#learnAhead(text, from)
    return from
  }

  takeRun(): string {
    return this.#template.takeRun()
  }

  get skimmed(): number {
    return this.#template.skimmed
  }

  push(event: SseEvent): readonly StreamPart[] {
    const parts = this.#read(event)
    if (!this.#hasContent) this.#hasContent = parts.some(({ content }) => content)
    return parts
  }

  #read({ event, data, skimmed }: SseEvent): readonly StreamPart[] {
    if (this.over || data === '') return NOTHING
    if (skimmed !== undefined) return [runPart(data, skimmed, this.#usage)]
    if (data.trim() === '[DONE]') {
      this.over = true
      return this.#ended()
    }
    // The template may come from a later event that is still to be read: the first chunk gets its role all the same.
    const fits = event === null && this.#looked?.data !== data && this.#choices.has(0)
    const text = fits ? this.#template.textIn(data) : null
    if (text !== null && text !== '') {
      const content = { text, bytes: Buffer.byteLength(text), content: true }
      return [plainPart(this.#template.shown(data, text), content, null, this.#usage)]
    }
    const reason = fits && this.dialect === STANDARD ? this.#template.reasonIn(data) : null
    if (reason !== null) {
      this.#choices.seeOne(0, true)
      return [plainPart(data, NO_CONTENT, reason, this.#usage)]
    }
    const chunk = this.#looked?.data === data ? this.#looked.chunk : parseJson(data)
    if (event === 'error') throw inBandFailure(chunk ?? { message: data }, this.reading)
    if (!isObject(chunk)) {
      this.unreadable = skipUnreadable(data, this.unreadable, this.complete)
      return NOTHING
    }
    if (reportsFailure(chunk)) return this.#failed(chunk, inBandFailure(chunk, this.reading))
    if (!Array.isArray(chunk.choices) && !isObject(chunk.usage)) {
      // A sign of life, or a vendor's own chunk: SDKs rely on the list, and there is nothing to show.
      this.#usage = this.dialect.usageOf(chunk) ?? this.#usage
      return NOTHING
    }
    try {
      return [this.#partOf(chunk, data)]
    } catch (thrown) {
      return this.#failed(chunk, thrown)
    }
  }

  end(): readonly StreamPart[] {
    if (this.#failure !== null) throw this.#failure.thrown
    if (!this.over && !this.#choices.allFinished()) throw malformed('its stream ended early')
    return NOTHING
  }

  /**
   * The content and usage of a chunk with a failure are returned before the failure. The end of its choices is
   * unknown: a finish reason there belongs to the failure.
   */
  #failed({ error: _, ...rest }: Json, failure: unknown): readonly StreamPart[] {
    const choices = arrayOf(rest.choices).map((choice) => {
      const { error: _, ...rest } = objectOf(choice)
      return { ...rest, finish_reason: null }
    })
    const { content } = readChoices(choicesOfDialect(choices, this.dialect))
    if (!content && !isObject(rest.usage)) throw failure
    this.#failure = { thrown: failure }
    this.over = true
    const chunk = { ...rest, choices: content ? choices : [] }
    return [this.#partOf(chunk, JSON.stringify(chunk))]
  }

  /**
   * All has come, but some choice has no finish reason: the client gets the one that a whole answer would have.
   * Without content, nothing is added.
   */
  #ended(): readonly StreamPart[] {
    const open = this.#choices.open()
    const head = this.#head
    if (open.length === 0 || head === null || !this.#hasContent) return NOTHING
    const choices = open.map((index) => ({
      index,
      delta: {},
      finish_reason: this.#calls?.has(index) ? 'tool_calls' : 'stop',
    }))
    this.#choices.see(choices)
    const { id, created, model } = head
    const chunk = { id, object: 'chat.completion.chunk', created, model, choices }
    const edits = missingFields(chunk, chunk.object, this.reading)
    const json = JSON.stringify(chunk)
    const finishReason = choices[0]!.index === 0 ? choices[0]!.finish_reason : null
    return [plainPart(edits.size === 0 ? json : editMembers(json, edits), NO_CONTENT, finishReason, this.#usage)]
  }

  #partOf(chunk: Json, data: string): StreamPart {
    if (this.#head === null || (!namesAnswer(this.#head) && namesAnswer(chunk))) this.#head = chunk
    const plain = data.includes('\n') || this.#hides(chunk) ? null : plainChoice(chunk, arrayOf(chunk.choices))
    // A vendor may have put fields of its own into the last chunk.
    const json = plain === null ? null : this.#withRole(plain.delta, data)
    if (plain !== null && json !== null && (plain.finishReason === null || this.dialect === STANDARD)) {
      const { delta, finishReason } = plain
      this.#choices.seeOne(0, finishReason !== null)
      const text = typeof delta.content === 'string' ? delta.content : ''
      if (finishReason === null && json === data && !hasRole(delta)) this.#learn(delta, data)
      const content = { text, bytes: generatedBytes(delta), content: hasContent(delta) }
      return plainPart(json, content, finishReason, this.#usage)
    }
    return this.#editedPart(chunk, data)
  }

  /** Usage that this client did not request. */
  #hides(chunk: Json): boolean {
    return chunk.usage !== undefined && this.reading?.hidesUsage === true
  }

  #editedPart(chunk: Json, data: string): StreamPart {
    const { dialect, reading } = this
    const reported = dialect.usageOf(chunk)
    this.#usage = reported ?? this.#usage
    const choices = arrayOf(chunk.choices)
    const converted = wholeDeltas(choicesOfDialect(choices, dialect), this.#choices)
    const edits = missingFields(chunk, 'chat.completion.chunk', reading, this.#head ?? chunk)
    if (chunk.gateway !== undefined) edits.set('gateway', { do: 'remove' })
    if (hasError(chunk)) edits.set('error', { do: 'remove' })
    const mapped = mappedChoices(converted, reading) ?? converted
    this.#calls ??= new CallRepair(reading)
    const begun = this.#choices.has(0)
    const repaired = withRoles(this.#calls.repair(mapped, data), this.#choices)
    if (repaired !== choices || !Array.isArray(chunk.choices))
      edits.set('choices', { do: 'set', json: JSON.stringify(repaired) })
    const finished = this.#choices.allFinished()
    this.#choices.see(repaired)
    const read = readChoices(repaired)
    // OpenRouter's last chunk repeats an empty choice beside the usage.
    const usageOnly = isObject(chunk.usage) && (choices.length === 0 || (finished && !read.content && !ends(repaired)))
    if (usageOnly && choices.length > 0) edits.set('choices', { do: 'set', json: '[]' })
    const usage: Edit | null = !usageOnly && this.#hides(chunk) ? { do: 'remove' } : usageEdit(chunk.usage, reported)
    if (usage !== null) edits.set('usage', usage)
    const oneLine = data.includes('\n') ? data.replaceAll('\n', ' ') : data
    const edited = edits.size === 0 ? oneLine : editMembers(oneLine, edits)
    const plain = begun && chunk.usage === null ? plainChoice(chunk, choices) : null
    if (plain !== null && plain.finishReason === null) this.#learn(plain.delta, data, edited)
    return { json: edited, ...read, usage: this.#usage, usageOnly }
  }

  /** A plain chunk with its role where it must be; null when its text does not allow the edit. */
  #withRole(delta: Json, data: string): string | null {
    if (hasRole(delta) !== this.#choices.has(0)) return data
    return hasRole(delta) ? withoutRole(data) : null
  }

  /**
   * Learns from a frame that will be read as an event later, so that the frames that came with it can be skimmed; the
   * frame itself is not skimmed.
   */
  #learnAhead(text: string, from: number): void {
    const end = text.indexOf('\n', from)
    if (end === -1) return
    this.#looks++
    const data = text.slice(from + FIELD.length, end)
    const chunk = parseJson(data)
    this.#looked = { data, chunk }
    const plain = isObject(chunk) ? plainChoice(chunk, arrayOf(chunk.choices)) : null
    if (plain === null || plain.finishReason !== null) return
    // A plain chunk lacks nothing, and its usage is null.
    const shown = this.#hides(chunk as Json) ? editMembers(data, WITHOUT_USAGE) : data
    if (hasRole(plain.delta)) this.#template.expect(data, plain.delta, shown)
    else this.#learn(plain.delta, data, shown)
  }

  /** For a delta whose only content is `content`: other members would not be counted again. */
  #learn(delta: Json, data: string, shown = data): void {
    const { content } = delta
    if (typeof content !== 'string' || content === '' || generatedBytes(delta) !== Buffer.byteLength(content)) return
    this.#template.learn(data, content, shown)
  }
}

export const openaiStream = (reading?: Reading, dialect: Dialect = STANDARD): StreamDecoder =>
  new OpenAiStream(reading, dialect)
