import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { ChunkTemplate } from '../../../src/providers/openai/chunk-template.ts'

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
/** What is passed over from the beginning, as the client gets it. */
const skimmed = (template: ChunkTemplate, text: string) => (template.skim(text, 0) > 0 ? template.takeRun() : '')
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
        const run = skimmed(template, framesOf([data, chunk('end')]))
        if (run !== '') expect(run).toBe(framesOf([data]))
        if (run !== '') expect(template.skimmed).toBe(Buffer.byteLength(content))
      },
    ),
  )
  const template = new ChunkTemplate()
  template.learn(lettered('Hello', 'aZ0'), 'Hello')
  expect(template.textIn(lettered(' wörld', ''))).toBe(' wörld')
  const frames = framesOf([lettered('ä', 'q'), lettered('b', 'w8Yt4'), lettered('c', 'x')])
  expect(skimmed(template, frames)).toBe(frames)
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
    expect(skimmed(template, framesOf([data]))).toBe('')
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
  const frames = [next, lettered('ä', ''), lettered('', 'q')]
  expect(skimmed(template, framesOf(frames))).toBe(framesOf(frames.slice(0, 2).map(shown)))
  expect(template.skimmed).toBe(7)
  // Without letters the same.
  template.learn(chunk('ö', { usage: null }), 'ö', chunk('ö'))
  const plain = ['one', 'zwölf', 'a"b'].map((content) => chunk(content, { usage: null }))
  expect(skimmed(template, framesOf(plain))).toBe(framesOf([chunk('one'), chunk('zwölf')]))
  expect(template.skimmed).toBe(9)
})

test('a frame of several lines is no template', () => {
  const template = new ChunkTemplate()
  const data = chunk('one').replace(',"choices"', ',\n"choices"')
  template.learn(data, 'one', data.replace('\n', ' '))
  expect(template.isLearned).toBe(false)
})

test('the chunk with the role shows what surrounds a delta, letters and all', () => {
  const template = new ChunkTemplate()
  const first = lettered('', 'begin').replace('"content":""', '"role":"assistant","content":""')
  template.expect(first, { role: 'assistant', content: '' })
  const frames = framesOf([lettered('Hel', 'u3'), lettered('lo', '')])
  expect(template.matches(frames, 0)).toBe(true)
  expect(skimmed(template, frames)).toBe(frames)
  expect(template.textIn(lettered('x', 'another'))).toBe('x')
})
