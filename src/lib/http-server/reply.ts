// Sends a reply: a whole response, a live one, or a `Response`.

import { wholeText } from '../text/text-pieces.ts'
import { type Answer, isText, type LiveBody } from './answer.ts'
import { LiveSink } from './live-sink.ts'
import { headText, type ReplyForm, type ServerOutput } from './output.ts'
import { ignored, sendResponse } from './response.ts'

export type Reply = Answer | Response

/** Whether the reply itself closes the connection. */
export const closesAfter = (reply: Reply): boolean =>
  reply instanceof Response ? reply.headers.get('connection') === 'close' : reply.closes

/** The body that is notified when its client disconnects, or null. */
export const liveBodyOf = (reply: Reply): LiveBody | null =>
  reply instanceof Response || isText(reply.body) ? null : reply.body

/** The text that may stand between two pieces of the reply's body, or null: see `LiveBody.idleText`. */
export const idleTextOf = (reply: Reply): string | null => {
  if (!(reply instanceof Response)) return isText(reply.body) ? null : (reply.body.idleText ?? null)
  // The pieces of such a body are whole events.
  return reply.headers.get('content-type')?.startsWith('text/event-stream') ? IDLE_COMMENT : null
}
const IDLE_COMMENT = ':\n\n'

/** Drops a reply whose client has disconnected. */
export const dropReply = (reply: Reply): void => {
  if (reply instanceof Response) reply.body?.cancel().catch(ignored)
  else liveBodyOf(reply)?.disconnected()
}

/**
 * True: all of it is handed over. A promise of true, or of false when its client has disconnected. Rejects where the
 * body fails.
 */
export const sendReply = (reply: Reply, output: ServerOutput, form: ReplyForm): true | Promise<boolean> => {
  if (reply instanceof Response) return sendResponse(reply, output, form)
  const { body } = reply
  if (isText(body) && !form.isHead) {
    output.whole(reply.status, reply.head, form.closes, body)
    return true
  }
  const { status, head: lines } = reply
  const { closes, isHead, isOne } = form
  if (isHead) output.text(`${headText(status, wholeText(lines), closes)}\r\n`)
  else if (!isText(body)) return sendLive(body, new LiveSink(output, { status, lines, closes }, isOne))
  return true
}

const sendLive = async (body: LiveBody, sink: LiveSink): Promise<boolean> => {
  await body.run(sink)
  if (sink.isOpen) throw new Error('a live body has no end')
  return true
}
