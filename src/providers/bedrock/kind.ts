// Amazon Bedrock: Converse and ConverseStream, signed (SigV4) or with an API key. `options` of the provider: `region`,
// `control_url` (where models are listed, behind a proxy), and for application inference profiles, which hide their
// model, `model_family` ("claude", "nova", "openai", "mistral") and `structured_output` ("native", "tool").

import { isObject } from '../../wire/json.ts'
import { oneOf, textOption } from '../options.ts'
import type { Capability, ProviderKind, Target, UpstreamRequest } from '../port.ts'
import { statusFailure } from '../shared/failure.ts'
import { memberIn, objectOf, parseJson, textOf } from '../shared/read-json.ts'
import { bedrockAnswer, bedrockUsage, statusOfException } from './answer.ts'
import { createAwsEventStreamParser } from './aws-event-stream.ts'
import { readListing } from './listing.ts'
import { FAMILY_NAMES } from './models.ts'
import { bedrockRequest } from './request.ts'
import { bedrockStream } from './stream.ts'
import { authorized, BEDROCK_URL, controlUrl, REGION, regionProblem } from './target.ts'

// No seed and no json_mode: neither has a counterpart.
const CAPABILITIES: readonly Capability[] = ['chat', 'streaming', 'tools', 'parallel_tool', 'json_schema', 'vision']

/**
 * `ThrottlingException:http://internal.amazon.com/...`, `com.amazon.coral.service#ThrottlingException` ->
 * `throttlingexception`
 */
const exceptionIn = (text: string): string =>
  text
    .slice(text.indexOf('#') + 1)
    .split(':', 1)[0]!
    .trim()
    .toLowerCase()

/** Failures of API keys come as AccessDeniedException too. */
const ABOUT_CREDENTIALS = /\b(?:api key|bearer token|security token|credential)/i

const failure: ProviderKind['failure'] = (status, body, headers, reading) => {
  const parsed = objectOf(parseJson(body))
  const errorType =
    headers.get('x-amzn-errortype') ?? textOf(parsed.__type) ?? textOf(objectOf(parsed.Output).__type) ?? ''
  const message = textOf(parsed.message) ?? textOf(parsed.Message) ?? ''
  const name = exceptionIn(errorType)
  const meant = statusOfException(name) ?? status
  const readAs = meant === 403 && ABOUT_CREDENTIALS.test(message) ? 401 : meant
  const plain = isObject(parsed) && parsed.message === undefined && message !== '' ? JSON.stringify({ message }) : body
  return statusFailure(status, plain, headers, reading, readAs)
}

const listed = (target: Target, path: string): UpstreamRequest =>
  authorized(
    {
      method: 'GET',
      url: controlUrl(target, path),
      headers: { 'content-type': 'application/json', accept: 'application/json' },
      body: null,
      shaping: [],
    },
    target,
  )

export const bedrock: ProviderKind = {
  kind: 'bedrock',
  needsCredential: true,
  capabilities: CAPABILITIES,
  defaultBaseUrl: BEDROCK_URL,
  // AWS's own name for it (AWS_BEARER_TOKEN_BEDROCK) is none that the gateway may read.
  usualEnv: null,
  options: {
    region: textOption(REGION, 'an AWS region such as "us-east-1"'),
    model_family: oneOf(...FAMILY_NAMES),
    structured_output: oneOf('native', 'tool'),
    control_url: textOption(/^https?:\/\/[^\s/?#@]+(?:\/[^\s?#]*)?$/i, 'an http or https address without a query'),
  },
  problem: regionProblem,
  request: bedrockRequest,
  response: bedrockAnswer,
  usageIn: (body) => {
    const usage = memberIn(body, 'usage')
    return usage === null ? null : bedrockUsage(usage)
  },
  stream: bedrockStream,
  framing: () => createAwsEventStreamParser(),
  failure,
  listing: {
    request: (target) => listed(target, '/foundation-models?byOutputModality=TEXT'),
    further: (target) => [listed(target, '/inference-profiles?maxResults=1000')],
    read: readListing,
  },
}
