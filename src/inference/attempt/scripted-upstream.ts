// Plays the scripted upstream of an in-process kind as if it had been dialled: same shape, same failures.
import type { CancelSignal } from '../../lib/event-loop/cancellation.ts'
import { DialFailure, type DialResponse } from '../../lib/http-client/http-client.ts'
import type { Script } from '../../providers/port.ts'

const encoder = new TextEncoder()

/**
 * Behaves like `Dial`: resolves with the head after its delay, then the body piece by piece. The signal ends it at any
 * point.
 */
export const playScript = async (script: Script, signal: CancelSignal): Promise<DialResponse> => {
  if (signal.aborted) throw canceled()
  if (script.headerDelayMs > 0) await pause(script.headerDelayMs, signal)
  return {
    status: script.status,
    headers: new Headers(script.headers),
    body: bodyOf(script, signal),
    text: (maxBytes) => textOf(script, signal, maxBytes),
  }
}

const canceled = (): DialFailure => new DialFailure('canceled', 'the call was canceled')

const pause = async (ms: number, signal: CancelSignal): Promise<void> => {
  if (signal.aborted) throw canceled()
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, ms)
  const onAbort = () => reject(canceled())
  signal.addEventListener('abort', onAbort)
  try {
    await promise
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', onAbort)
  }
}

const untilAborted = (signal: CancelSignal): Promise<never> => {
  const { promise, reject } = Promise.withResolvers<never>()
  if (signal.aborted) reject(canceled())
  else signal.addEventListener('abort', () => reject(canceled()))
  return promise
}

const ending = async (script: Script, signal: CancelSignal): Promise<void> => {
  if (script.ending === 'abort') throw new DialFailure('reset', 'the connection was closed')
  if (script.ending === 'hang') await untilAborted(signal)
}

const bodyOf = (script: Script, signal: CancelSignal): ReadableStream<Uint8Array> => {
  let at = 0
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const piece = script.pieces[at++]
        if (piece === undefined) {
          await ending(script, signal)
          controller.close()
          return
        }
        if (piece.afterMs > 0) await pause(piece.afterMs, signal)
        else if (signal.aborted) throw canceled()
        controller.enqueue(encoder.encode(piece.text))
      },
    },
    { highWaterMark: 0 },
  )
}

const textOf = async (script: Script, signal: CancelSignal, maxBytes: number): Promise<string> => {
  let text = ''
  for (const piece of script.pieces) {
    if (piece.afterMs > 0) await pause(piece.afterMs, signal)
    text += piece.text
    if (text.length > maxBytes) throw new DialFailure('too_large', `the answer is larger than ${maxBytes} bytes`)
  }
  await ending(script, signal)
  return text
}
