// The streams of tests/fixtures/providers/bedrock as code: the frames that Bedrock was observed to send (padding `p`,
// blocks of empty text, a start for tools only). `bun tests/providers/bedrock/streams.ts` writes the files.
import { awsEvent, awsEventFrame, awsException } from './aws-event-frame.ts'

const FOLDER = `${import.meta.dir}/../../fixtures/providers/bedrock`

const start = awsEvent('messageStart', { p: 'abcdefghijk', role: 'assistant' })
const tool = (contentBlockIndex: number, toolUseId: string, name: string) =>
  awsEvent('contentBlockStart', { contentBlockIndex, p: 'ab', start: { toolUse: { name, toolUseId } } })
const delta = (contentBlockIndex: number, of: Record<string, unknown>) =>
  awsEvent('contentBlockDelta', { contentBlockIndex, delta: of, p: 'abcdefghijklmnopqrstuvwxyzABCDEFGH' })
const text = (index: number, piece: string) => delta(index, { text: piece })
const input = (index: number, piece: string) => delta(index, { toolUse: { input: piece } })
const stop = (contentBlockIndex: number) => awsEvent('contentBlockStop', { contentBlockIndex, p: 'abcd' })
const end = (stopReason: string, more: Record<string, unknown> = {}) =>
  awsEvent('messageStop', { ...more, p: 'abcdefgh', stopReason })
const metadata = (usage: Record<string, unknown>, more: Record<string, unknown> = {}) =>
  awsEvent('metadata', { metrics: { latencyMs: 802 }, p: 'abcdefghijklmnop', usage, ...more })

const USAGE = { inputTokens: 12, outputTokens: 5, serverToolUsage: {}, totalTokens: 17 }

/** File name without its ending -> frames. */
export const BEDROCK_STREAMS: Readonly<Record<string, readonly Uint8Array[]>> = {
  text: [
    start,
    text(0, 'Grüße'),
    text(0, ' 👋'),
    awsEvent('somethingNew', { of: 'later' }),
    stop(0),
    end('end_turn', { additionalModelResponseFields: { delta: { stop_sequence: null } } }),
    metadata({ ...USAGE, cacheReadInputTokens: 100, cacheWriteInputTokens: 8 }),
  ],
  'thinking-tools': [
    start,
    text(0, ''),
    stop(0),
    delta(1, { reasoningContent: { text: 'let me ' } }),
    delta(1, { reasoningContent: { text: 'see' } }),
    delta(1, { reasoningContent: { signature: 'c2ln' } }),
    stop(1),
    delta(2, { reasoningContent: { redactedContent: 'ZA==' } }),
    stop(2),
    text(3, 'I look.'),
    stop(3),
    tool(4, 'tooluse_1', 'look'),
    input(4, ''),
    input(4, '{"at":'),
    input(4, ' 12345678901234567890}'),
    stop(4),
    tool(5, 'functions.rest:1', 'rest'),
    stop(5),
    end('tool_use'),
    metadata(USAGE),
  ],
  'json-tool': [
    start,
    tool(0, 'tooluse_1', 'gateway_json_answer'),
    input(0, '{"a"'),
    input(0, ':1}'),
    stop(0),
    end('tool_use'),
    metadata(USAGE),
  ],
  'unsigned-thinking': [
    start,
    delta(0, { reasoningContent: { text: 'hm' } }),
    stop(0),
    delta(1, { citation: { title: 'document', location: {} } }),
    text(1, 'yes'),
    stop(1),
    end('max_tokens'),
    // No metadata: the answer is whole all the same.
  ],
  guardrail: [
    start,
    text(0, 'I may not say that.'),
    stop(0),
    end('guardrail_intervened'),
    metadata(USAGE, { trace: { guardrail: { inputAssessment: { abc: { topicPolicy: { topics: [] } } } } } }),
  ],
  throttled: [
    start,
    awsException('throttlingException', { message: 'Too many tokens, please wait before trying again.' }),
  ],
  'model-error': [
    start,
    text(0, 'Hel'),
    awsException('modelStreamErrorException', {
      message: 'Model Stream Error',
      originalStatusCode: 500,
      originalMessage: 'The model stream failed.',
    }),
  ],
  'validation-error': [
    awsException('validationException', { message: 'The model returned the following errors: prompt is too long' }),
  ],
  'server-error': [
    start,
    awsEventFrame({ ':message-type': 'error', ':error-code': 'InternalFailure', ':error-message': 'It broke.' }, ''),
  ],
  'malformed-tool': [
    start,
    tool(0, 'tooluse_1', 'look'),
    input(0, '{"a'),
    stop(0),
    end('malformed_tool_use'),
    metadata(USAGE),
  ],
  'early-end': [start, text(0, 'Hel'), metadata(USAGE)],
  'broken-payload': [start, awsEvent('contentBlockDelta', '{"cut'), text(0, 'ok'), end('end_turn')],
}

if (import.meta.main)
  for (const [name, frames] of Object.entries(BEDROCK_STREAMS))
    await Bun.write(`${FOLDER}/${name}.eventstream`, Buffer.concat(frames))
