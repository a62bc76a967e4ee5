import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { ChunkTemplate } from '../../src/providers/chunk-template.ts'

const chunk = (content: string, more: Record<string, unknown> = {}) =>
  JSON.stringify({ id: 'c1', created: 1, choices: [{ index: 0, delta: { content }, finish_reason: null }], ...more })

const contentOf = (data: string) =>
  (JSON.parse(data) as { choices: { delta: { content: string } }[] }).choices[0]!.delta.content

test('whatever two texts are: the second is read as JSON.parse reads it, or not at all', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.string({ unit: 'binary' }), (first, second) => {
      const template = new ChunkTemplate()
      template.learn(chunk(first), first)
      const text = template.textIn(chunk(second))
      if (text !== null) expect(text).toBe(contentOf(chunk(second)))
    }),
  )
})

test('plain text is recognised, a chunk with other surroundings is not', () => {
  const template = new ChunkTemplate()
  template.learn(chunk('Hello'), 'Hello')
  expect(template.textIn(chunk(' wörld'))).toBe(' wörld')
  expect(template.textIn(chunk('a "quoted" word'))).toBeNull()
  expect(template.textIn(chunk('x', { usage: { total_tokens: 1 } }))).toBeNull()
  expect(template.textIn(chunk('x').replace('"index":0', '"index":1'))).toBeNull()
  expect(template.textIn('{"error":{"message":"x"}}')).toBeNull()
})

test('a chunk in which another member is called content is no template', () => {
  const template = new ChunkTemplate()
  template.learn(chunk('same', { note: { content: 'same' } }), 'same')
  expect(template.textIn(chunk('other', { note: { content: 'same' } }))).toBeNull()
})
