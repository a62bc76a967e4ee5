// Azure's streams begin, and with its asynchronous filter go on, with chunks about the filter that name no answer.
import { expect, test } from 'bun:test'
import { kindOf } from '../../../src/providers/kinds.ts'

const ABOUT_FILTER = { id: '', object: '', created: 0, model: '' }
const OF_ANSWER = {
  id: 'chatcmpl-1',
  object: 'chat.completion.chunk',
  created: 1_700_000_000,
  model: 'gpt-4o-2024-08-06',
}
const reading = { id: 'chatcmpl-ours', createdS: 1_800_000_000, model: 'deployed', secret: null }

const headsOf = (chunks: readonly object[]): unknown[] => {
  const decoder = kindOf('azure_openai')!.stream(reading)
  return chunks
    .flatMap((chunk) => decoder.push({ event: null, data: JSON.stringify(chunk) }))
    .map(({ json }) => {
      const { id, object, created, model } = JSON.parse(json!)
      return { id, object, created, model }
    })
}

test('they are of the answer whose chunks stand beside them, once it has a name', () => {
  const heads = headsOf([
    { ...ABOUT_FILTER, choices: [], prompt_filter_results: [{ prompt_index: 0 }] },
    { ...OF_ANSWER, choices: [{ index: 0, delta: { role: 'assistant', content: 'Hi' }, finish_reason: null }] },
    { ...ABOUT_FILTER, choices: [{ index: 0, finish_reason: null, content_filter_offsets: { check_offset: 1 } }] },
    { ...OF_ANSWER, choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
  ])
  const ours = { ...OF_ANSWER, id: 'chatcmpl-ours', created: 1_800_000_000, model: 'deployed' }
  expect(heads).toEqual([ours, OF_ANSWER, OF_ANSWER, OF_ANSWER])
})

test('where nothing ever names the answer, all chunks are of the first', () => {
  const choices = [{ index: 0, delta: { content: 'x' }, finish_reason: null }]
  const heads = headsOf([{ model: 'first', created: 5, choices }, { model: 'second', choices }, { choices }]) as {
    model: string
    created: number
  }[]
  expect(heads.map(({ model, created }) => [model, created])).toEqual([
    ['first', 5],
    ['second', 5],
    ['first', 5],
  ])
})
