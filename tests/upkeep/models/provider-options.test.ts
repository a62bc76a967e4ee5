// What each kind takes among a provider's `options`, and that every other value is told when it is written.
import { describe, expect, test } from 'bun:test'
import { KINDS } from '../../../src/providers/kinds.ts'
import { providerProblem } from '../../../src/upkeep/models/kind-table.ts'

const flawOf = (kind: string, options: Record<string, unknown>) =>
  providerProblem(KINDS.get(kind)!, { base_url: 'https://h.example/v1', region: 'us-east-1', options })

/** By option: values that are taken, and values that are not. */
interface Values {
  readonly good: readonly unknown[]
  readonly bad: readonly unknown[]
}
const FIELDS: Values = { good: [[], ['top_k', 'min_p']], bad: ['top_k', [1], [''], {}, Array(65).fill('x')] }
const HEADER: Values = { good: ['org-1.a_b'], bad: ['', 'a b', 'a\r\nx: y', 7, {}, 'x'.repeat(129)] }
const SENTENCE: Values = { good: ['https://a.example/x?y', 'My app'], bad: ['', ' x', 'ä', 'a\nb', true] }
const AUTH: Values = { good: ['api_key', 'bearer'], bad: ['', 'Bearer', 'basic', true] }
const VERSION: Values = { good: ['2023-06-01', 'a-2025,b: c'], bad: ['', 'a\nb', 'ä', 2023] }
const COUNT: Values = { good: [1, 8_192], bad: ['8192', 1.5, true, -2] }
const SWITCH: Values = { good: [true, false], bad: ['true', 1, []] }

const OF: Readonly<Record<string, Readonly<Record<string, Values>>>> = {
  openai: { organization: HEADER, project: HEADER },
  azure_openai: {
    api_version: { good: ['2024-10-21', '2025-04-01-preview', 'preview'], bad: ['', '2024 10 21', 20241021, 'a&b=c'] },
    auth: AUTH,
  },
  mistral: { safe_prompt: SWITCH },
  openai_compatible: { stops_billing_when_left: SWITCH },
  openrouter: { referer: SENTENCE, title: SENTENCE },
  gemini: { api_version: { good: ['v1', 'v1beta', 'v1alpha.x'], bad: ['', '1', 'v1/x', 1] }, auth: AUTH },
  anthropic: { anthropic_version: VERSION, anthropic_beta: VERSION },
  bedrock: {
    region: { good: ['us-east-1', 'us-gov-west-1', 'ap-southeast-12'], bad: ['', 'europe', 'us-east-1/#', 1] },
    model_family: { good: ['claude', 'nova', 'openai', 'mistral', 'other'], bad: ['', 'Claude', 'llama', 1] },
    structured_output: { good: ['native', 'tool'], bad: ['', 'yes', true] },
    control_url: {
      good: ['https://bedrock.us-east-1.amazonaws.com', 'https://bedrock.{region}.amazonaws.com/x/'],
      bad: ['', 'bedrock.example', 'ftp://h', 'https://u:p@h', 'https://h?x', 'https://h/#x', 1],
    },
  },
  ollama: {
    num_ctx: COUNT,
    num_batch: COUNT,
    num_gpu: { ...COUNT, good: [-1, 0, 99] },
    num_thread: { ...COUNT, good: [0, 4] },
    keep_alive: { good: ['10m', '1h30m', '-1', '0', -1, 300], bad: ['', 'forever', '10 m', true, {}] },
    truncate: SWITCH,
    shift: SWITCH,
  },
}
const OWN = ['anthropic', 'bedrock', 'cohere', 'gemini', 'ollama']

for (const [name, kind] of KINDS) {
  describe(`options of ${name}`, () => {
    const values = { ...OF[name], ...(OWN.includes(name) ? {} : { forward: FIELDS, drop: FIELDS }) }

    test('are all known here', () => {
      expect(Object.keys(kind.options ?? {}).toSorted()).toEqual(Object.keys(values).toSorted())
    })

    for (const [option, { good, bad }] of Object.entries(values)) {
      test(`${option}: what the kind would use is taken, null too; what it would not is refused by its name`, () => {
        for (const value of [...good, null]) expect([value, flawOf(name, { [option]: value })]).toEqual([value, null])
        for (const value of bad) {
          const flaw = flawOf(name, { [option]: value })
          expect([value, flaw?.param]).toEqual([value, `options.${option}`])
          expect(flaw?.message).toStartWith(`"options.${option}`)
        }
      })
    }
  })
}

test('the message says what it must be, and never what it was', () => {
  expect(flawOf('azure_openai', { api_version: 'sk secret' })?.message).toBe(
    '"options.api_version" must be an API version such as "2024-10-21"',
  )
  expect(flawOf('gemini', { auth: 'sk secret' })?.message).toBe('"options.auth" must be one of api_key, bearer')
})
