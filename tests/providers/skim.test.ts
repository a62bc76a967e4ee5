// Frames that pass without being read: the client gets the same bytes, and the same number of characters is counted.
import { expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { createSseParser, sseFrame } from '../../src/lib/sse.ts'
import { openaiStream } from '../../src/providers/openai-stream.ts'
import type { StreamPart } from '../../src/providers/provider.ts'
import { GatewayError } from '../../src/wire/errors.ts'

const READING = { id: 'chatcmpl-x', createdS: 1, secret: null }

/** The client's bytes, what was counted, how it ended, and how many runs were skimmed. */
const relay = (bytes: Uint8Array, cuts: readonly number[], skims: boolean) => {
  const decoder = openaiStream(READING)
  const parser = createSseParser(undefined, skims ? (text, from) => decoder.skim!(text, from) : null)
  let client = ''
  let counted = 0
  let runs = 0
  const take = (parts: readonly StreamPart[]) => {
    for (const { json, frames, bytes: added } of parts) {
      client += frames ?? (json === null ? '' : sseFrame(json))
      counted += added
      if (frames !== undefined) runs++
    }
  }
  const edges = [0, ...[...cuts].sort((a, b) => a - b), bytes.length]
  try {
    for (let i = 1; i < edges.length; i++)
      for (const event of parser.push(bytes.subarray(edges[i - 1], edges[i]))) take(decoder.push(event))
    for (const event of parser.end()) take(decoder.push(event))
    take(decoder.end())
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    return { client, counted, ending: error.code, runs }
  }
  return { client, counted, ending: decoder.complete ? 'whole' : 'cut', runs }
}

const same = (bytes: Uint8Array, cuts: readonly number[]) => {
  const { runs: _, ...skimmed } = relay(bytes, cuts, true)
  const { runs: __, ...read } = relay(bytes, cuts, false)
  expect(skimmed).toEqual(read)
}

const ROOT = join(import.meta.dir, '../fixtures/providers')
const streams = readdirSync(ROOT, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.sse'))

test('every recorded stream, cut anywhere', () => {
  expect(streams.length).toBeGreaterThan(5)
  for (const path of streams) {
    const bytes = readFileSync(join(ROOT, path))
    same(bytes, [])
    fc.assert(
      fc.property(fc.array(fc.nat(bytes.length), { maxLength: 8 }), (cuts) => same(bytes, cuts)),
      { numRuns: 20 },
    )
  }
})

const chunk = (content: string) =>
  `data: ${JSON.stringify({ id: 'c1', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta: { content }, finish_reason: null }] })}\n\n`

test('property: whatever the texts are', () => {
  const text = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.constantFrom('plain', ' text', '', 'a"b', 'a\\b', '\n', '\u0001', 'é'),
  )
  fc.assert(
    fc.property(fc.array(text, { maxLength: 20 }), fc.array(fc.nat(3_000), { maxLength: 6 }), (texts, cuts) => {
      const bytes = Buffer.from(`${texts.map(chunk).join('')}data: [DONE]\n\n`)
      same(
        bytes,
        cuts.map((cut) => Math.min(cut, bytes.length)),
      )
    }),
    { numRuns: 500 },
  )
})

test('a first frame that came in two pieces has its role, although the one after it was looked at before', () => {
  same(Buffer.from(`${['one', 'two', 'three'].map(chunk).join('')}data: [DONE]\n\n`), [1])
})

test('plain frames do pass as runs', () => {
  const bytes = Buffer.from(['one', 'two', 'three', 'a"b', 'four', 'five'].map(chunk).join(''))
  expect(relay(bytes, [], true)).toMatchObject({ runs: 2, counted: 22 })
})

test('bytes are counted, not characters: of a run that is skimmed like of chunks that are read', () => {
  const texts = ['one', 'zwölf', '日本語', '😀', 'four']
  const bytes = Buffer.from(texts.map(chunk).join('').replaceAll('"model":"m"', '"model":"modèle"'))
  const counted = Buffer.byteLength(texts.join(''))
  expect(relay(bytes, [], true)).toMatchObject({ runs: 1, counted })
  expect(relay(bytes, [], false)).toMatchObject({ runs: 0, counted })
})

test('a frame with a control character in its text is no JSON and is read', () => {
  const bytes = Buffer.from(`${chunk('one')}${chunk('two').replace('two', 't\to')}${chunk('three')}`)
  same(bytes, [])
  expect(relay(bytes, [], true).client).not.toContain('t\to')
})
