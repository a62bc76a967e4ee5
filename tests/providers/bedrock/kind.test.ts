// What the fixtures of Bedrock cannot say: signatures, addresses, and what of the operator's must never be shown.
import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { createAwsEventStreamParser } from '../../../src/providers/bedrock/aws-event-stream.ts'
import { bedrock } from '../../../src/providers/bedrock/kind.ts'
import type { Reading, StreamPart, Target } from '../../../src/providers/port.ts'
import { providerProblem } from '../../../src/upkeep/models/kind-table.ts'
import { GatewayError } from '../../../src/wire/errors.ts'
import { BEDROCK_STREAMS } from './streams.ts'

const KEYS = 'AKIDEXAMPLE:wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY'
const ARN = 'arn:aws:bedrock:eu-west-1:123456789012:application-inference-profile/abc1'
const STREAM_SIGNATURE = '605e837b76eaa04db87e52ad8b5c7346ab067794d1d365ef78f55b1c9b794be7'
const body = { model: 'm', messages: [{ role: 'user', content: 'hi' }] }
const target = (more: Partial<Target> = {}): Target => ({
  baseUrl: 'https://bedrock-runtime.us-east-1.amazonaws.com',
  secret: KEYS,
  upstreamModel: 'amazon.nova-lite-v1:0',
  options: {},
  maxOutputTokens: null,
  usageOnStream: false,
  atMs: 1_770_000_000_123,
  ...more,
})
const request = (more: Partial<Target> = {}, stream = false) =>
  bedrock.request({ raw: JSON.stringify(body), body, stream, capabilities: [] }, target(more))
const authorization = (more: Partial<Target> = {}) => request(more).headers.authorization!

describe('signatures are those of botocore 1.44.5 for the same request', () => {
  test('an ARN in the path, temporary credentials', () => {
    const { url, headers } = request(
      { upstreamModel: ARN, secret: `${KEYS}:tok/en+==`, options: { model_family: 'claude' } },
      true,
    )
    expect(url).toBe(
      'https://bedrock-runtime.us-east-1.amazonaws.com/model/arn%3Aaws%3Abedrock%3Aeu-west-1%3A123456789012%3Aapplication-inference-profile%2Fabc1/converse-stream',
    )
    expect(headers).toEqual({
      'content-type': 'application/json',
      accept: 'application/vnd.amazon.eventstream',
      'x-amz-date': '20260202T024000Z',
      'x-amz-security-token': 'tok/en+==',
      authorization: `AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260202/us-east-1/bedrock/aws4_request, SignedHeaders=content-type;host;x-amz-date;x-amz-security-token, Signature=${STREAM_SIGNATURE}`,
    })
  })

  test('a query', () => {
    const [asked] = bedrock.listing!.further!(target({ secret: `${KEYS}:tok/en+==` }))
    expect(asked!.headers.authorization).toEndWith(
      'Signature=ed85ca4c432d85992e6e76a781a56ea003812b70a5f17a75c20005a6f5386f6d',
    )
  })

  test('the time is the one that is passed in', () => {
    expect(authorization({ atMs: Date.UTC(2027, 0, 1) })).toContain('/20270101/')
    expect(authorization({ atMs: Date.UTC(2027, 0, 1) })).not.toBe(
      authorization({ atMs: Date.UTC(2027, 0, 1, 0, 0, 1) }),
    )
  })
})

describe('addresses', () => {
  const listed = (more: Partial<Target>) => bedrock.listing!.request(target({ secret: 'a-bearer', ...more })).url
  const REST = '/foundation-models?byOutputModality=TEXT'

  test.each([
    ['https://bedrock-runtime.{region}.amazonaws.com', 'eu-west-3', 'https://bedrock.eu-west-3.amazonaws.com'],
    ['https://bedrock-runtime.us-west-2.amazonaws.com/v1/', 'us-west-2', 'https://bedrock.us-west-2.amazonaws.com'],
    [
      'https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com',
      'us-gov-west-1',
      'https://bedrock-fips.us-gov-west-1.amazonaws.com',
    ],
    [
      'https://bedrock-runtime.cn-north-1.amazonaws.com.cn',
      'cn-north-1',
      'https://bedrock.cn-north-1.amazonaws.com.cn',
    ],
    [
      'https://vpce-1.bedrock-runtime.us-east-2.vpce.amazonaws.com',
      'us-east-2',
      'https://vpce-1.bedrock.us-east-2.vpce.amazonaws.com',
    ],
    ['http://127.0.0.1:4000/bedrock', 'eu-west-3', 'http://127.0.0.1:4000/bedrock'],
  ])('%s is signed for %s and lists at %s', (baseUrl, region, control) => {
    const options = { region: 'eu-west-3' }
    expect(authorization({ baseUrl, options })).toContain(`/${region}/bedrock/aws4_request`)
    expect(listed({ baseUrl, options })).toBe(`${control}${REST}`)
  })

  test("the provider's own region counts where it is one of AWS and nothing else says one", () => {
    const baseUrl = bedrock.defaultBaseUrl!
    expect(request({ baseUrl, region: 'eu-north-1' }).url).toStartWith('https://bedrock-runtime.eu-north-1.')
    expect(request({ baseUrl, region: 'eu-north-1', options: { region: 'us-west-1' } }).url).toContain('us-west-1')
    expect(() => request({ baseUrl, region: 'europe' })).toThrow('options.region')
  })

  test('that nobody says one, or none of AWS, is known before the first request', () => {
    const flaw = (baseUrl: string, options = {}, region: string | null = null) =>
      providerProblem(bedrock, { base_url: baseUrl, options, region })?.param ?? null
    expect(flaw(bedrock.defaultBaseUrl!)).toBe('options.region')
    expect(flaw(bedrock.defaultBaseUrl!, {}, 'europe')).toBe('options.region')
    expect(flaw('https://proxy.example', { region: 'us-east-1/#' })).toBe('options.region')
    expect(flaw(bedrock.defaultBaseUrl!, { region: 'us-east-1' })).toBeNull()
    expect(flaw(bedrock.defaultBaseUrl!, {}, 'eu-north-1')).toBeNull()
    expect(flaw('https://proxy.example')).toBeNull()
  })

  test('models may be listed elsewhere', () => {
    const options = { control_url: 'https://control.example/', region: 'eu-west-3' }
    expect(listed({ baseUrl: 'https://proxy.example', options })).toBe(`https://control.example${REST}`)
  })
})

describe('credentials', () => {
  test('an API key is a bearer, and needs no region', () => {
    const { headers } = request({ secret: ' ABSKQmVkcm9jaw== ', baseUrl: 'https://proxy.example' })
    expect(headers.authorization).toBe('Bearer ABSKQmVkcm9jaw==')
    expect(headers['x-amz-date']).toBeUndefined()
  })

  test.each(['AKID:', ':secret-secret', 'AKIDEXAMPLE:short', 'AKIDEXAMPLE:secretsecret:two words', 'a\nb'])(
    '%j is refused, and not quoted',
    (secret) => {
      let error: unknown
      try {
        request({ secret })
      } catch (thrown) {
        error = thrown
      }
      expect(error).toBeInstanceOf(GatewayError)
      expect((error as GatewayError).code).toBe('provider_unavailable')
      expect((error as GatewayError).message).not.toContain(secret)
    },
  )

  test('no part of it is ever quoted', () => {
    const secret = `${KEYS}:a-session-token`
    const reading: Reading = { id: 'i', createdS: 0, secret }
    for (const part of [secret, ...secret.split(':')]) {
      const said = JSON.stringify({ message: `it was signed with ${part} by somebody` })
      for (const status of [400, 403, 429, 500]) {
        const { message } = bedrock.failure(status, said, new Headers(), reading)
        expect(message).not.toContain(part)
      }
    }
  })
})

const READING: Reading = { id: 'chatcmpl-1', createdS: 1, model: ARN, secret: null }
const partsOf = (name: string): readonly StreamPart[] => {
  const decoder = bedrock.stream(READING)
  return BEDROCK_STREAMS[name]!.flatMap((frame) =>
    createAwsEventStreamParser()
      .push(frame)
      .flatMap((event) => decoder.push(event)),
  )
}

describe('streams', () => {
  test.each(Object.keys(BEDROCK_STREAMS))('the file of %s holds what is written here', (name) => {
    const file = readFileSync(`${import.meta.dir}/../../fixtures/providers/bedrock/${name}.eventstream`)
    expect(Buffer.concat(BEDROCK_STREAMS[name]!).equals(file)).toBe(true)
  })

  test('what a guardrail found, and the fields that were asked for, are handed on', () => {
    expect(JSON.parse(partsOf('guardrail').at(-1)!.json!)).toMatchObject({
      choices: [],
      trace: { guardrail: { inputAssessment: { abc: {} } } },
    })
    expect(JSON.parse(partsOf('text').at(-2)!.json!)).toMatchObject({
      choices: [{ finish_reason: 'stop' }],
      additionalModelResponseFields: { delta: { stop_sequence: null } },
    })
  })

  test('complete with its finish, over with its usage', () => {
    const decoder = bedrock.stream(READING)
    const states = BEDROCK_STREAMS['json-tool']!.map((frame) => {
      for (const event of createAwsEventStreamParser().push(frame)) decoder.push(event)
      return [decoder.complete, decoder.over]
    })
    expect(states.slice(-3)).toEqual([
      [false, false],
      [true, false],
      [true, true],
    ])
    expect(decoder.end()).toEqual([])
  })

  test("an ARN's account is not shown", () => {
    for (const { json } of partsOf('text')) expect(JSON.parse(json!).model).toBe('abc1')
    const answer = { output: { message: { role: 'assistant', content: [{ text: 'x' }] } }, stopReason: 'end_turn' }
    expect(JSON.parse(bedrock.response(JSON.stringify(answer), READING).json).model).toBe('abc1')
  })
})
