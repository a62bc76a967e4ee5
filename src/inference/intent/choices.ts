// The choices of an answer, for requests with several choices or a form of the answer: provider kinds report the first
// choice only, and not all of it.
import { isObject } from '../../wire/json.ts'
import { MAX_ANSWER_CHARS } from './structured.ts'

/** The fields of one choice that a `response_format` concerns. */
export interface ChoiceFacts {
  readonly content: string | null
  readonly finishReason: string | null
  readonly refusal: boolean
  readonly toolNames: readonly string[]
}

/** No answer has more choices; a higher index is ignored. */
const MOST_CHOICES = 1_024

const NO_TOOLS: readonly string[] = []
const SOME_TOOL: readonly string[] = ['']
const filled = (value: unknown): boolean =>
  value !== undefined && value !== null && value !== '' && !(Array.isArray(value) && value.length === 0)

const choicesIn = (json: string): readonly unknown[] => {
  const parsed: unknown = JSON.parse(json)
  return isObject(parsed) && Array.isArray(parsed.choices) ? parsed.choices : []
}

/** The choices of a `chat.completion`, in the order in which they stand. */
export const choicesOf = (json: string): readonly ChoiceFacts[] =>
  choicesIn(json).map((choice) => {
    const { message, finish_reason } = isObject(choice) ? choice : {}
    const { content, refusal, tool_calls, function_call } = isObject(message) ? message : {}
    return {
      content: typeof content === 'string' ? content : null,
      finishReason: typeof finish_reason === 'string' ? finish_reason : null,
      refusal: filled(refusal),
      toolNames: filled(tool_calls) || filled(function_call) ? SOME_TOOL : NO_TOOLS,
    }
  })

/** `length` when any choice was cut by its length, else the given reason. */
export const cutOr = (finishReason: string | null, choices: readonly ChoiceFacts[]): string | null => {
  for (let i = 0; i < choices.length; i++) if (choices[i]!.finishReason === 'length') return 'length'
  return finishReason
}

interface Growing {
  content: string
  finishReason: string | null
  refusal: boolean
  toolNames: readonly string[]
}

/** Collects the choices of a stream, chunk by chunk. */
export class StreamedChoices {
  readonly #byIndex = new Map<number, Growing>()
  #chars = 0

  /** `keepsText`: the text of the choices is needed. */
  constructor(private readonly keepsText: boolean) {}

  /** Takes a `chat.completion.chunk`; returns whether a choice ends in it. */
  note(json: string): boolean {
    let ends = false
    for (const value of choicesIn(json)) {
      if (!isObject(value)) continue
      const index = typeof value.index === 'number' ? value.index : 0
      if (!Number.isInteger(index) || index < 0 || index >= MOST_CHOICES) continue
      const choice = this.#choice(index)
      const delta = isObject(value.delta) ? value.delta : {}
      if (this.keepsText && typeof delta.content === 'string') this.#append(choice, delta.content)
      if (filled(delta.refusal)) choice.refusal = true
      if (filled(delta.tool_calls) || filled(delta.function_call)) choice.toolNames = SOME_TOOL
      if (typeof value.finish_reason !== 'string' || value.finish_reason === '') continue
      choice.finishReason = value.finish_reason
      ends = true
    }
    return ends
  }

  /** In the order of their indexes. */
  facts(): readonly ChoiceFacts[] {
    return [...this.#byIndex].sort(([a], [b]) => a - b).map(([, choice]) => choice)
  }

  /** The indexes of choices without a finish reason: of the first `count`, and of any others that came. */
  unfinished(count: number): number[] {
    const open = new Set<number>()
    for (let index = 0; index < count; index++) open.add(index)
    for (const [index, { finishReason }] of this.#byIndex)
      if (finishReason === null) open.add(index)
      else open.delete(index)
    return [...open].sort((a, b) => a - b)
  }

  #choice(index: number): Growing {
    let choice = this.#byIndex.get(index)
    if (choice === undefined) {
      choice = { content: '', finishReason: null, refusal: false, toolNames: NO_TOOLS }
      this.#byIndex.set(index, choice)
    }
    return choice
  }

  /** All choices share one bound: the choice that passes it is too long to be checked. */
  #append(choice: Growing, text: string): void {
    if (choice.content.length >= MAX_ANSWER_CHARS) return
    this.#chars += text.length
    choice.content = this.#chars < MAX_ANSWER_CHARS ? choice.content + text : choice.content.padEnd(MAX_ANSWER_CHARS)
  }
}
