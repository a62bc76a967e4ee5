// What vendors refuse, sent against: every rule of every fake vendor by a request that is against it, and conversations
// of every shape with pairs of parameters. The gateway never sends what a vendor refuses, or refuses it itself by the
// name of the field, or relays a refusal that is listed as such.
import { describe, expect, test } from 'bun:test'
import { readIntent } from '../../src/inference/intent/intent.ts'
import { KINDS } from '../../src/providers/kinds.ts'
import type { Target } from '../../src/providers/port.ts'
import { GatewayError } from '../../src/wire/errors.ts'
import { ANTHROPIC_RULES } from '../services/vendors/claude-rules.ts'
import { type Json, type Received, Refused } from '../services/vendors/conversation.ts'
import { CONVERSE_RULES } from '../services/vendors/converse-rules.ts'
import { OPENAI_SHAPE_RULES } from '../services/vendors/openai-shape-rules.ts'
import { COHERE_RULES, GEMINI_RULES, OLLAMA_RULES } from '../services/vendors/other-rules.ts'
import type { Rule } from '../services/vendors/rule.ts'
import { SPEAKERS, wireOf } from '../services/vendors/vendors.ts'
import type { Speaker } from '../services/vendors/wire.ts'
import { MESSAGES, PARAMETERS, picks } from './conversations.ts'

const RULES: Readonly<Record<string, readonly Rule[]>> = {
  anthropic: ANTHROPIC_RULES,
  bedrock: CONVERSE_RULES,
  gemini: GEMINI_RULES,
  cohere: COHERE_RULES,
  ollama: OLLAMA_RULES,
}
const rulesOf = ({ kind }: Speaker): readonly Rule[] => RULES[kind] ?? OPENAI_SHAPE_RULES
const nameOf = ({ kind, model }: Speaker): string => `${kind} ${model}`

const NO_HEADERS = new Headers()

type Outcome =
  | { readonly is: 'taken'; readonly body: Json; readonly shaping: readonly string[] }
  | { readonly is: 'refused by the gateway'; readonly param: string | null; readonly message: string }
  | { readonly is: 'refused by the vendor'; readonly message: string; readonly body: Json }
  | { readonly is: 'left out'; readonly capability: string }

/** The request as the vendor gets it: from the intent to its checks, without a connection. */
const send = (speaker: Speaker, client: Json): Outcome => {
  const kind = KINDS.get(speaker.kind)!
  const raw = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hi' }], ...client })
  try {
    const intent = readIntent(raw, JSON.parse(raw), NO_HEADERS)
    const lacking = intent.requirements.find(({ capability }) => !kind.capabilities.includes(capability))
    if (lacking !== undefined) return { is: 'left out', capability: lacking.capability }
    const origin = 'http://127.0.0.1:1'
    const target: Target = {
      baseUrl: `${origin}${speaker.basePath}`,
      secret: speaker.secret,
      region: 'us-east-1',
      upstreamModel: speaker.model,
      options: speaker.options,
      maxOutputTokens: 8_192,
      usageOnStream: false,
    }
    const call = { raw: intent.raw, body: intent.body, stream: intent.stream, capabilities: kind.capabilities }
    const { method, url, headers, body, shaping } = kind.request(call, target)
    const { pathname, searchParams } = new URL(url)
    const read = JSON.parse(body!) as Json
    const all = new Headers({ host: '127.0.0.1:1', ...headers })
    const received: Received = { method, path: pathname, query: searchParams, headers: all, text: body!, body: read }
    try {
      wireOf(speaker).read(received)
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      return { is: 'refused by the vendor', message: error.message, body: read }
    }
    return { is: 'taken', body: read, shaping }
  } catch (error) {
    if (!(error instanceof GatewayError) || error.code !== 'invalid_request') throw error
    return { is: 'refused by the gateway', param: error.param, message: error.message }
  }
}

/** With an API key of Bedrock: signatures are the dialer's. */
const VENDORS = SPEAKERS.map(
  (speaker) =>
    [nameOf(speaker), speaker.kind === 'bedrock' ? { ...speaker, secret: 'bedrock-fixture-key' } : speaker] as const,
)

describe.each(VENDORS)('%s', (_name, speaker) => {
  const applying = rulesOf(speaker).filter(({ appliesTo }) => appliesTo?.(speaker) !== false)

  test('takes a plain request', () => {
    expect(send(speaker, {})).toMatchObject({ is: 'taken' })
  })

  test('is sent nothing against its rules, or refuses what is listed as relayed', () => {
    for (const { name, against, onPurpose } of applying) {
      const outcome = send(speaker, against)
      if (outcome.is === 'left out') continue
      const refusal = outcome.is === 'refused by the vendor' ? outcome.message : null
      expect([name, onPurpose === undefined ? refusal : refusal === null]).toEqual([
        name,
        onPurpose === undefined ? null : false,
      ])
      if (outcome.is === 'refused by the gateway') expect([name, outcome.param]).not.toEqual([name, null])
    }
  })
})

test('every rule has a source, a body that breaks it, and a vendor that it is about', () => {
  for (const rules of [...Object.values(RULES), OPENAI_SHAPE_RULES])
    for (const { name, source, breaks, holds, appliesTo } of rules) {
      const subject = SPEAKERS.find((speaker) => rulesOf(speaker) === rules && appliesTo?.(speaker) !== false)
      expect([name, subject === undefined]).toEqual([name, false])
      expect([name, new URL(source).protocol]).toEqual([name, 'https:'])
      expect([name, holds(breaks, subject!)]).toEqual([name, false])
    }
})

/** Refusals that the gateway relays on purpose: the vendor's words, and why. */
const RELAYED: readonly (readonly [words: RegExp, why: string])[] = [
  [/^tools\.0: bad parameters$/, 'schemas of this wire are sent in the client’s bytes'],
  [/^Expected last role User or Tool/, 'the provider cannot continue an answer'],
  [/should alternate with assistant message|two turns of the user in a row/, 'messages of this wire are never joined'],
  [/^the conversation must begin with the user$/, 'messages of this wire are never added'],
]

/** The same pairs in every run. */
const SEED = 20_261_128
const PAIRS_PER_SHAPE = 6
/** Shapes that each parameter is sent with by itself as well. */
const ALONE = new Set(['plain', 'assistant last', 'loop of one', 'loop with a thought'])

test('conversations of every shape, with every parameter and pairs of them, are taken by every vendor', () => {
  const next = picks(SEED)
  const names = Object.keys(PARAMETERS)
  const pick = () => names[Math.floor(next() * names.length)]!
  const refusals = new Map<string, string>()
  const relayed = new Set<RegExp>()
  let taken = 0
  for (const [vendor, speaker] of VENDORS)
    for (const [shape, messages] of Object.entries(MESSAGES)) {
      const pairs = Array.from({ length: PAIRS_PER_SHAPE }, () => [pick(), pick()])
      const single = ALONE.has(shape) ? names.map((name) => [name]) : []
      for (const pair of [[], ...single, ...pairs]) {
        const outcome = send(speaker, Object.assign({ messages }, ...pair.map((name) => PARAMETERS[name]!)))
        if (outcome.is === 'taken') taken++
        if (outcome.is === 'refused by the gateway' && outcome.param === null)
          refusals.set(`${vendor}: ${outcome.message}`, `no param: ${shape} + ${pair.join(' + ')}`)
        if (outcome.is !== 'refused by the vendor') continue
        const known = RELAYED.find(([words]) => words.test(outcome.message))
        if (known === undefined) refusals.set(`${vendor}: ${outcome.message}`, `${shape} + ${pair.join(' + ')}`)
        else relayed.add(known[0])
      }
    }
  expect(Object.fromEntries(refusals)).toEqual({})
  expect(RELAYED.filter(([words]) => !relayed.has(words))).toEqual([])
  expect(taken).toBeGreaterThan(10_000)
}, 120_000)
