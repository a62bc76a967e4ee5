import { describe, expect, test } from 'bun:test'
import { type BypassFacts, partitionOf, passage } from '../../../src/inference/cache/bypass.ts'
import { bodyBypass, notStored } from '../../../src/inference/cache/cacheable.ts'
import type { AppliedRule } from '../../../src/inference/cache/rule.ts'
import { readIntent } from '../../../src/inference/intent/intent.ts'

const APPLIED = { mode: 'exact', ttlMs: 1_000 } as AppliedRule
const FACTS: BypassFacts = {
  choice: APPLIED,
  isOverridden: false,
  sensitivity: [],
  policySensitivity: {},
  noCache: false,
  body: null,
  partition: [],
}
const reasonOf = (more: Partial<BypassFacts>) => passage({ ...FACTS, ...more }).reason

describe('a request passes the cache by', () => {
  test.each<[Partial<BypassFacts>, string | null]>([
    [{}, null],
    [{ choice: 'no_rule' }, 'no_rule'],
    [{ choice: 'rule_disabled' }, 'rule_disabled'],
    [{ isOverridden: true }, 'override'],
    [{ sensitivity: ['pii'] }, 'sensitivity'],
    [{ sensitivity: ['public', 'phi'] }, 'sensitivity'],
    [{ sensitivity: ['pii'], policySensitivity: { pii: { cache: true } } }, 'sensitivity'],
    [{ sensitivity: ['public'] }, null],
    [{ sensitivity: ['public'], policySensitivity: { public: { cache: false } } }, 'sensitivity'],
    [{ body: 'tools' }, 'tools'],
    [{ body: 'not_cacheable' }, 'not_cacheable'],
    [{ partition: null }, 'not_cacheable'],
    [{ noCache: true }, 'no_cache_header'],
    [{ noCache: true, body: 'tools' }, 'tools'],
    [{ choice: 'no_rule', noCache: true, isOverridden: true }, 'no_rule'],
  ])('%j: %p', (more, reason) => {
    expect(reasonOf(more)).toBe(reason as never)
  })

  test('with the header alone its answer takes the place of the entry; otherwise nothing is stored', () => {
    expect(passage({ ...FACTS, noCache: true }).applied).toBe(APPLIED)
    expect(passage({ ...FACTS, noCache: true, sensitivity: ['phi'] }).applied).toBeNull()
  })

  test('under a partition without a value', () => {
    const values = { key: 'key_1', user: null, session: 's' }
    expect(partitionOf(['session', 'key'], values)).toEqual([
      ['key', 'key_1'],
      ['session', 's'],
    ])
    expect(partitionOf(['key', 'user'], values)).toBeNull()
    expect(partitionOf([], values)).toEqual([])
  })
})

const bypassOf = (body: Record<string, unknown>, raw = JSON.stringify({ model: 'm', ...body }), maxBytes = 10_000) => {
  const intent = readIntent(raw, JSON.parse(raw) as Record<string, unknown>, { get: () => null, has: () => false })
  const { choices, outside, toolExecution } = intent
  return bodyBypass(
    {
      raw: intent.raw,
      body: intent.body,
      choices,
      refersOutside: outside !== null,
      usesToolExecution: toolExecution !== null,
    },
    maxBytes,
  )
}
const user = (content: unknown) => ({ messages: [{ role: 'user', content }] })
const part = (more: object) => user([{ type: 'text', text: 'https://a.example is text' }, more])
const tool = { type: 'function', function: { name: 'f' } }

describe('a body', () => {
  test.each<[string, Record<string, unknown>]>([
    ['text', user('see https://a.example/x')],
    ['parts of text', user([{ type: 'text', text: 'https://a.example' }])],
    ['an inline picture', part({ type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA', detail: 'low' } })],
    ['inline sound', part({ type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } })],
    [
      'an inline file',
      part({ type: 'file', file: { file_data: 'data:application/pdf;base64,AA', filename: 'a.pdf' } }),
    ],
    ['eight choices', { ...user('x'), n: 8 }],
    ['store: false', { ...user('x'), store: false }],
    ['null tools', { ...user('x'), tools: null, tool_choice: null }],
  ])('with %s may be cached', (_, body) => {
    expect(bypassOf(body)).toBeNull()
  })

  test.each<[string, Record<string, unknown>]>([
    ['tools', { ...user('x'), tools: [tool] }],
    ['tool_choice', { ...user('x'), tools: [tool], tool_choice: 'auto' }],
    ['tool_execution', { ...user('x'), tool_execution: { mode: 'manual' } }],
    [
      'an earlier call',
      {
        messages: [
          { role: 'assistant', content: null, tool_calls: [] },
          { role: 'user', content: 'x' },
        ],
      },
    ],
    ['the result of a tool', { messages: [{ role: 'tool', tool_call_id: 'c', content: 'x' }] }],
  ])('with %s bypasses as tools', (_, body) => {
    expect(bypassOf(body)).toBe('tools')
  })

  test.each<[string, Record<string, unknown>]>([
    ['a picture by address', part({ type: 'image_url', image_url: { url: 'https://a.example/x.png' } })],
    ['a picture by address, written flat', part({ type: 'image_url', image_url: ' HTTP://a.example/x.png' })],
    ['a file by id', part({ type: 'file', file: { file_id: 'file-1' } })],
    ['a file in a bucket', part({ type: 'file', file: { url: 'gs://bucket/a.pdf' } })],
    ['a video by address', part({ type: 'video_url', video_url: { url: 'https://a.example/v.mp4' } })],
    [
      'an earlier spoken answer',
      {
        messages: [
          { role: 'assistant', audio: { id: 'audio_1' } },
          { role: 'user', content: 'x' },
        ],
      },
    ],
    ['nine choices', { ...user('x'), n: 9 }],
    ['store: true', { ...user('x'), store: true }],
    ['a search of the vendor', { ...user('x'), web_search_options: {} }],
    ['an earlier answer by id', { ...user('x'), previous_response_id: 'r' }],
    ['more bytes than an entry', user('x'.repeat(10_001))],
    ['more bytes than characters', user('\u00e9'.repeat(6_000))],
  ])('with %s is not cacheable', (_, body) => {
    expect(bypassOf(body)).toBe('not_cacheable')
  })

  test('with a name twice is not cacheable: a provider may answer the other one', () => {
    const raw = '{"model":"m","messages":[{"role":"user","content":"evil","content":"innocent"}]}'
    expect(bypassOf({}, raw)).toBe('not_cacheable')
  })
})

test('answers that are not whole are not stored', () => {
  const whole = {
    finishReasons: ['stop'],
    hasToolCalls: false,
    isConforming: null,
    isGuarded: false,
    bytes: 10,
    isEmpty: false,
  }
  expect(notStored(whole, 10)).toBeNull()
  expect(notStored({ ...whole, isConforming: true, finishReasons: ['stop', 'stop'] }, 10)).toBeNull()
  for (const reason of ['length', 'content_filter', 'tool_calls', 'error', '', null])
    expect(notStored({ ...whole, finishReasons: ['stop', reason] }, 10)).toBe('finish_reason')
  expect(notStored({ ...whole, finishReasons: [] }, 10)).toBe('finish_reason')
  expect(notStored({ ...whole, hasToolCalls: true }, 10)).toBe('tools')
  expect(notStored({ ...whole, isConforming: false }, 10)).toBe('structured')
  expect(notStored({ ...whole, isGuarded: true }, 10)).toBe('guardrail')
  expect(notStored({ ...whole, isEmpty: true }, 10)).toBe('empty')
  expect(notStored({ ...whole, bytes: 11 }, 10)).toBe('too_large')
})
