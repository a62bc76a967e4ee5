// Ids for tool calls that an upstream sends without one: they return in the next request, perhaps to another vendor, so
// their form is valid for each vendor.
import { expect, test } from 'bun:test'
import { kindOf } from '../../../src/providers/kinds.ts'

/** OpenAI takes 40 characters, Anthropic these ones. */
const TAKEN_EVERYWHERE = /^[\w-]{1,40}$/

// The id of an answer without one, as it is made of a request.
const reading = { id: 'chatcmpl-019ac0de-0000-7000-8000-0123456789ab', createdS: 1, model: 'm', secret: null }
const called = { name: 'look', arguments: '{}' }

const ANSWERS: Readonly<Record<string, object>> = {
  openai_compatible: { choices: [{ message: { role: 'assistant', tool_calls: [{ function: called }] } }] },
  gemini: {
    candidates: [{ content: { parts: [{ functionCall: { name: 'look', args: {} } }] }, finishReason: 'STOP' }],
  },
  ollama: { model: 'm', message: { role: 'assistant', content: '', tool_calls: [{ function: called }] }, done: true },
}

test.each(Object.keys(ANSWERS))('%s: every vendor takes the id that is made', (kind) => {
  const { choices } = JSON.parse(kindOf(kind)!.response(JSON.stringify(ANSWERS[kind]), reading).json)
  const [call] = choices[0].message.tool_calls
  expect(call.function.name).toBe('look')
  expect(call.id).toMatch(TAKEN_EVERYWHERE)
})
