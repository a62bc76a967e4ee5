// The head of an answered chat completion, as text: its names are the program's, and its values have no character that could end their line.
import type { Exchange } from '../inference/exchange.ts'
import { headerText } from './envelope.ts'

const JSON_LINES = 'content-type: application/json\r\n'
const STREAM_LINES =
  'content-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache, no-transform\r\nx-accel-buffering: no\r\n'

/** Ids are sanitised at arrival, limits are numbers and words of ours. */
export const answerHead = (
  { identity, entry, limitLines }: Pick<Exchange, 'identity' | 'entry' | 'limitLines'>,
  stream: boolean,
): string => {
  const { requestId, traceId } = identity
  const lines = stream ? STREAM_LINES : JSON_LINES
  const provider = headerText(entry!.provider)
  return `${lines}x-request-id: ${requestId}\r\nx-trace-id: ${traceId}\r\nx-gateway-provider: ${provider}\r\n${limitLines}`
}
