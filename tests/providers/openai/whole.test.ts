// What every answer and every chunk has, whatever an upstream of the OpenAI shape leaves out.
import { describe, expect, test } from 'bun:test'
import { createSseParser } from '../../../src/lib/text/sse.ts'
import { kindOf } from '../../../src/providers/kinds.ts'
import type { Reading } from '../../../src/providers/port.ts'
import { GatewayError } from '../../../src/wire/errors.ts'

const READING: Reading = { id: 'chatcmpl-r-1', createdS: 1_770_000_000, model: 'asked-for', secret: null }
const HEAD = { id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm' }

const kind = kindOf('openai_compatible')!
const answered = (body: object): string => kind.response(JSON.stringify(body), READING).json
/** The chunks that a client gets. */
const streamed = (...chunks: readonly object[]): string[] => {
  const decoder = kind.stream(READING)
  const parts = chunks.flatMap((chunk) => decoder.push({ event: null, data: JSON.stringify(chunk) }))
  if (decoder.over) decoder.end()
  return parts.map(({ json }) => json!)
}
const headOf = (json: string): object => {
  const { choices: _, ...head } = JSON.parse(json)
  return head
}
const chunk = (delta: unknown, more: object = {}, finish: string | null = null) => ({
  ...HEAD,
  ...more,
  choices: [{ index: 0, delta, finish_reason: finish }],
})
/** What an upstream may send in place of a name, or of a time. */
const NO_NAMES = [undefined, null, '', 5]

describe('a whole answer names its model and its time', () => {
  const choices = [{ index: 0, message: { role: 'assistant', content: 'x' }, finish_reason: 'stop' }]
  const whole = { ...HEAD, object: 'chat.completion', choices }

  test('where the upstream does not, by what it was asked for', () => {
    expect(headOf(answered({ choices }))).toEqual({
      id: 'chatcmpl-r-1',
      object: 'chat.completion',
      created: 1_770_000_000,
      model: 'asked-for',
    })
    for (const model of NO_NAMES) expect(headOf(answered({ ...whole, model }))).toMatchObject({ model: 'asked-for' })
    expect(JSON.parse(kind.response(JSON.stringify({ choices })).json).model).toBe('')
  })

  test('in whole seconds', () => {
    expect(headOf(answered({ ...whole, created: 1_769_999_999.75 }))).toMatchObject({ created: 1_769_999_999 })
    for (const created of [undefined, null, '1', [1]])
      expect(headOf(answered({ ...whole, created }))).toMatchObject({ created: 1_770_000_000 })
    const { json } = kind.response(JSON.stringify(whole).replace('"created":1', '"created":1e400'), READING)
    expect(headOf(json)).toMatchObject({ created: 1_770_000_000 })
  })

  test('and keeps its bytes where it does', () => {
    expect(answered(whole)).toBe(JSON.stringify(whole))
  })
})

describe('each chunk names what its answer is', () => {
  test('as the first one does', () => {
    const bare = { id: undefined, created: undefined, model: undefined }
    const heads = streamed(chunk({ content: 'a' }), chunk({ content: 'b' }, bare), chunk({}, bare, 'stop')).map(headOf)
    expect(heads).toEqual([HEAD, HEAD, HEAD])
  })

  test('else as it was asked for', () => {
    for (const model of NO_NAMES)
      for (const json of streamed(
        chunk({ role: 'assistant', content: '' }, { model }),
        chunk({ content: 'a' }, { model }),
        chunk({}, { model }, 'stop'),
        { ...HEAD, model, choices: [], usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 } },
      ))
        expect(headOf(json)).toMatchObject({ model: 'asked-for' })
  })

  test('in whole seconds', () => {
    const heads = streamed(chunk({ content: 'a' }, { created: 1.5 }), chunk({ content: 'b' }, { created: 2.5 }))
    expect(heads.map(headOf)).toMatchObject([{ created: 1 }, { created: 2 }])
  })

  test('the one that ends what never ended too', () => {
    const decoder = kind.stream(READING)
    decoder.push({ event: null, data: JSON.stringify(chunk({ content: 'a' }, { model: undefined, created: 1.5 })) })
    const [last] = decoder.push({ event: null, data: '[DONE]' })
    expect(headOf(last!.json!)).toEqual({ ...HEAD, model: 'asked-for' })
  })

  test('nothing that lacks something passes in a run of frames', () => {
    for (const more of [{ model: undefined }, { model: '' }, { created: 1.5 }]) {
      const decoder = kind.stream(READING)
      const chunks = [{ role: 'assistant', content: '' }, ...['a', 'b', 'c'].map((content) => ({ content }))]
      const bytes = Buffer.from(chunks.map((delta) => `data: ${JSON.stringify(chunk(delta, more))}\n\n`).join(''))
      const events = createSseParser(undefined, decoder.skimmer!).push(bytes)
      const parts = events.flatMap((event) => decoder.push(event))
      expect(parts.map(({ json, text }) => [headOf(json!), text])).toEqual(
        ['', 'a', 'b', 'c'].map((text) => [{ ...HEAD, model: 'model' in more ? 'asked-for' : 'm' }, text]),
      )
    }
  })
})

describe('each choice of a chunk has a delta', () => {
  const choicesOf = (json: string) => JSON.parse(json).choices
  const content = (text: string) => ({ index: 0, delta: { content: text }, finish_reason: null })

  test('where the upstream sends none, with its finish reason or without', () => {
    for (const delta of [undefined, null, 'x', []]) {
      const [, mute, last] = streamed(chunk({ content: 'a' }), chunk(delta), chunk(delta, {}, 'stop'))
      expect(choicesOf(mute!)).toEqual([{ index: 0, delta: {}, finish_reason: null }])
      expect(choicesOf(last!)).toEqual([{ index: 0, delta: {}, finish_reason: 'stop' }])
    }
    const [first] = streamed(chunk(null), chunk({ content: 'a' }))
    expect(choicesOf(first!)[0].delta).toEqual({ role: 'assistant' })
  })

  test('of several, and beside usage that is told or hidden', () => {
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
    const mute = { index: 1, finish_reason: 'length' }
    const [, both] = streamed(chunk({ content: 'a' }), { ...HEAD, usage, choices: [content('b'), mute, null] })
    expect(choicesOf(both!)).toEqual([
      content('b'),
      { ...mute, delta: { role: 'assistant' } },
      { index: 2, delta: { role: 'assistant' } },
    ])
    const decoder = kind.stream({ ...READING, hidesUsage: true })
    const datas = [chunk({ content: 'a' }), chunk(undefined, { usage: null }, 'stop')].map((one) => JSON.stringify(one))
    const [, last] = datas.flatMap((data) => decoder.push({ event: null, data }))
    expect(JSON.parse(last!.json!)).toEqual(chunk({}, {}, 'stop'))
  })

  test('chunks that have it keep their bytes', () => {
    const chunks = [chunk({ role: 'assistant', content: 'a' }), chunk({ content: 'b' }), chunk({}, {}, 'stop')]
    expect(streamed(...chunks)).toEqual(chunks.map((one) => JSON.stringify(one)))
  })
})

describe('an error beside choices', () => {
  const answer = (content: string, error: unknown) => ({
    ...HEAD,
    object: 'chat.completion',
    choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
    error,
  })
  const thrown = (work: () => unknown): GatewayError => {
    try {
      work()
    } catch (error) {
      if (error instanceof GatewayError) return error
      throw error
    }
    throw new Error('nothing was thrown')
  }

  test('that tells something is the failure that it tells of, in an answer as in a stream', () => {
    const told: readonly (readonly [error: unknown, code: string])[] = [
      [{ code: 429, message: 'busy' }, 'rate_limited'],
      [{ message: 'Provider disconnected' }, 'upstream_error'],
      ['Model is loading', 'upstream_error'],
      [true, 'upstream_error'],
    ]
    for (const [error, code] of told)
      for (const content of ['', 'x']) {
        expect([error, thrown(() => answered(answer(content, error))).code]).toEqual([error, code])
        expect([error, thrown(() => streamed(chunk({ content }, { error }))).code]).toEqual([error, code])
        const late = () => streamed(chunk({ content: 'a' }), chunk({ content }, { error }, 'stop'))
        expect([error, thrown(late).code]).toEqual([error, code])
      }
    expect(() => answered({ ...answer('x', undefined), object: 'error', message: 'no' })).toThrow('no')
    expect(() => streamed(chunk({ content: 'x' }, { object: 'error', message: 'no' }))).toThrow('no')
  })

  test('comes behind what is said in the same chunk, and ends the stream without another reason', () => {
    const decoder = kind.stream(READING)
    const error = { code: 429, message: 'busy' }
    const push = (sent: object) => decoder.push({ event: null, data: JSON.stringify(sent) })
    const parts = [
      ...push(chunk({ role: 'assistant', content: 'a' })),
      ...push(chunk({ content: ' b' }, { error, usage: { prompt_tokens: 3, completion_tokens: 2 } }, 'stop')),
      ...push(chunk({ content: ' c' })),
    ]
    expect(parts.map(({ text, finishReason }) => [text, finishReason])).toEqual([
      ['a', null],
      [' b', null],
    ])
    expect(parts.at(-1)).toMatchObject({ usage: { promptTokens: 3, completionTokens: 2 } })
    expect(parts.at(-1)!.json).not.toContain('busy')
    const own = { ...chunk({ content: 'x' }), error, choices: [{ index: 0, delta: { content: 'x' }, error }] }
    expect(kind.stream(READING).push({ event: null, data: JSON.stringify(own) })[0]!.json).not.toContain('busy')
    expect([decoder.over, decoder.complete]).toEqual([true, false])
    expect(thrown(() => decoder.end()).code).toBe('rate_limited')
  })

  test.each(['', 'x'])('is one by the reason to have ended too, behind what was said (%p) and used', (content) => {
    const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 }
    const decoder = kind.stream(READING)
    const push = (sent: object) => decoder.push({ event: null, data: JSON.stringify(sent) })
    push(chunk({ role: 'assistant', content: 'a' }))
    const [part] = push(chunk({ content }, { usage }, 'error'))
    expect(part).toMatchObject({ text: content, finishReason: null, usageOnly: content === '' })
    expect(part!.usage).toMatchObject({ promptTokens: 3, completionTokens: 2 })
    expect([decoder.over, decoder.complete]).toEqual([true, false])
    expect(thrown(() => decoder.end()).code).toBe('upstream_error')
  })

  test('that tells nothing is none, and is not passed on', () => {
    for (const error of ['', {}, [], false, 0, { code: 0, message: '' }, { code: null, message: null }]) {
      expect(answered(answer('x', error))).toBe(JSON.stringify(answer('x', undefined)))
      const deltas = ['a', 'b', 'c'].map((content) => ({ content }))
      const chunks = (more: object) => deltas.map((delta) => chunk(delta, more))
      const clean = [chunk({ role: 'assistant', ...deltas[0] }), ...chunks({}).slice(1)]
      expect(streamed(...chunks({ error })).map((json) => JSON.parse(json))).toEqual(clean)
      const bytes = Buffer.from(
        [{ role: 'assistant', content: '' }, ...deltas]
          .map((delta) => `data: ${JSON.stringify(chunk(delta, { error }))}\n\n`)
          .join(''),
      )
      const decoder = kind.stream(READING)
      const events = createSseParser(undefined, decoder.skimmer!).push(bytes)
      for (const { json } of events.flatMap((event) => decoder.push(event))) expect(json).not.toContain('error')
      expect(streamed({ error })).toEqual([])
      expect(() => answered({ error })).toThrow('it has no choices')
    }
  })

  test('a null keeps its bytes', () => {
    const whole = answer('x', null)
    const chunks = [chunk({ role: 'assistant', content: 'a' }, { error: null }), chunk({}, { error: null }, 'stop')]
    expect(answered(whole)).toBe(JSON.stringify(whole))
    expect(streamed(...chunks)).toEqual(chunks.map((one) => JSON.stringify(one)))
  })
})

test('a converting kind names what was asked for where its upstream names no model', () => {
  const anthropic = kindOf('anthropic')!
  const message = { id: 'msg', type: 'message', role: 'assistant', content: [{ type: 'text', text: 'x' }] }
  for (const model of [undefined, null]) {
    expect(JSON.parse(anthropic.response(JSON.stringify({ ...message, model }), READING).json).model).toBe('asked-for')
    const start = JSON.stringify({ type: 'message_start', message: { id: 'msg', model } })
    const [part] = anthropic.stream(READING).push({ event: 'message_start', data: start })
    expect(headOf(part!.json!)).toMatchObject({ model: 'asked-for' })
  }
})
