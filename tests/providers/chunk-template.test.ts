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

const framesOf = (chunks: readonly string[]) => chunks.map((data) => `data: ${data}\n\n`).join('')
const lettered = (content: string, obfuscation: unknown, more: Record<string, unknown> = {}) =>
  chunk(content, { usage: null, obfuscation, ...more })

test('letters behind a chunk may be others each time, whatever they are', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: 'binary' }),
      fc.string({ unit: 'binary' }),
      fc.string({ unit: 'grapheme' }),
      (content, letters, firstLetters) => {
        const template = new ChunkTemplate()
        template.learn(lettered('Hello', firstLetters), 'Hello')
        const data = lettered(content, letters)
        const text = template.textIn(data)
        if (text !== null) expect(text).toBe(content)
        if (text !== null) expect(template.shown(data, text)).toBe(data)
        const run = template.skim(framesOf([data, chunk('end')]), 0)
        if (run !== '') expect(run).toBe(framesOf([data]))
        if (run !== '') expect(template.skimmed).toBe(Buffer.byteLength(content))
      },
    ),
  )
  const template = new ChunkTemplate()
  template.learn(lettered('Hello', 'aZ0'), 'Hello')
  expect(template.textIn(lettered(' wörld', ''))).toBe(' wörld')
  const frames = framesOf([lettered('ä', 'q'), lettered('b', 'w8Yt4'), lettered('c', 'x')])
  expect(template.skim(frames, 0)).toBe(frames)
  expect(template.skimmed).toBe(4)
})

test('letters of another kind, in another place or none are read by who parses', () => {
  const template = new ChunkTemplate()
  template.learn(lettered('Hello', 'aZ0'), 'Hello')
  for (const data of [
    lettered('x', null),
    lettered('x', 'ä'),
    lettered('x', 'a"b'),
    lettered('x', 'aZ0', { more: 1 }),
    lettered('x', 'aZ0', { usage: { total_tokens: 1 } }),
    chunk('x', { usage: null }),
    lettered('', 'aZ0').slice(0, -1),
  ]) {
    expect(template.textIn(data)).toBeNull()
    expect(template.skim(framesOf([data]), 0)).toBe('')
  }
  const nested = (letters: string) => chunk('x', { note: { obfuscation: letters } })
  template.learn(nested('aZ0'), 'x')
  expect(template.textIn(nested('other'))).toBeNull()
})

test('a chunk that is shown otherwise keeps its own letters', () => {
  const template = new ChunkTemplate()
  const shown = (data: string) => data.replace('"usage":null,', '')
  const first = lettered('Hello', 'aZ0')
  template.learn(first, 'Hello', shown(first))
  const next = lettered('world', 'q7')
  expect(template.textIn(next)).toBe('world')
  expect(template.shown(next, 'world')).toBe(shown(next))
  expect(template.skim(framesOf([next]), 0)).toBe('')
})

test('the chunk with the role shows what surrounds a delta, letters and all', () => {
  const template = new ChunkTemplate()
  const first = lettered('', 'begin').replace('"content":""', '"role":"assistant","content":""')
  template.expect(first, { role: 'assistant', content: '' })
  const frames = framesOf([lettered('Hel', 'u3'), lettered('lo', '')])
  expect(template.meets(frames, 0)).toBe(true)
  expect(template.skim(frames, 0)).toBe(frames)
  expect(template.textIn(lettered('x', 'another'))).toBe('x')
})
