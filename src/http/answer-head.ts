// The response head of a chat completion, as text. Its names are constants, and its values have no character that could
// end their line.
import type { Exchange } from '../inference/request/exchange.ts'
import type { TextPieces } from '../lib/text/text-pieces.ts'
import type { CatalogueEntry } from '../state/port.ts'
import { headerText } from './envelope.ts'

const JSON_LINES = 'content-type: application/json\r\nx-request-id: '
const STREAM_LINES =
  'content-type: text/event-stream; charset=utf-8\r\n' +
  'cache-control: no-cache, no-transform\r\nx-accel-buffering: no\r\nx-request-id: '

const providerTexts = new WeakMap<CatalogueEntry, string>()

/** Built once for each entry. */
const providerLine = (entry: CatalogueEntry): string => {
  let line = providerTexts.get(entry)
  if (line === undefined) {
    line = `\r\nx-gateway-provider: ${headerText(entry.provider)}\r\n`
    providerTexts.set(entry, line)
  }
  return line
}

/** Request ids are sanitised at arrival; limit lines hold numbers and constants only. */
export const answerHead = (
  { identity, entry, limitLines }: Pick<Exchange, 'identity' | 'entry' | 'limitLines'>,
  stream: boolean,
): TextPieces => [
  stream ? STREAM_LINES : JSON_LINES,
  identity.requestId,
  '\r\nx-trace-id: ',
  identity.traceId,
  providerLine(entry!),
  limitLines,
]
