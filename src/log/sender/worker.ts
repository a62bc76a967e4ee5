// The thread that ships: one log of its own, one loop for each spool. Controlled by messages of `thread.ts`.

import { sleep } from '../../lib/event-loop/sleep.ts'
import { codeOf } from '../../lib/process/error-code.ts'
import type { EventLog } from '../port.ts'
import type { SpoolTopic } from '../segments/segments.ts'
import { openThreadLog, type ThreadLog } from '../thread-log.ts'
import { type ShipProgress, shipSpool } from './ship.ts'
import type { ShipTarget } from './shipments.ts'

export interface SpoolToShip {
  readonly directory: string
  readonly drain: boolean
}

export type ToSender =
  | (ThreadLog & {
      readonly type: 'start'
      readonly targets: Readonly<Record<SpoolTopic, ShipTarget>>
      readonly afterSync: boolean
      readonly gatherMs: number
      readonly spools: readonly SpoolToShip[]
      /** One int32, counted up and notified after each write of a spool. */
      readonly bell: SharedArrayBuffer
    })
  | { readonly type: 'ship'; readonly spool: SpoolToShip }
  | { readonly type: 'stop' }

export type FromSender =
  | { readonly type: 'progress'; readonly progress: ShipProgress }
  | { readonly type: 'drained'; readonly directory: string }
  | { readonly type: 'failed'; readonly directory: string; readonly problem: string }
  | { readonly type: 'stopped' }

declare const self: Worker

/** The longest wait before a stop request takes effect. */
const LONGEST_WAIT_MS = 250
const AFTER_FAILURE_MS = 1_000

const post = (message: FromSender): void => self.postMessage(message)
const stopping = new AbortController()
/** State of the thread: a worker loads this module once, and its message handler has no other place for it. */
let ship: ((spool: SpoolToShip) => void) | null = null
const loops = new Set<Promise<void>>()
/** Likewise: the log of this thread, until it is stopped. */
let opened: EventLog | null = null

/** Resolves when the bell rang since the last call, or after a timeout. */
const listen = (bell: Int32Array<SharedArrayBuffer>) => {
  let lastRing = -1
  return async (): Promise<void> => {
    const now = Atomics.load(bell, 0)
    if (now === lastRing) await Atomics.waitAsync(bell, 0, now, LONGEST_WAIT_MS).value
    else lastRing = now
  }
}

const start = async (message: Extract<ToSender, { type: 'start' }>): Promise<void> => {
  const log = await openThreadLog(message)
  opened = log
  const bell = new Int32Array(message.bell)
  const run = async ({ directory, drain }: SpoolToShip): Promise<void> => {
    while (!stopping.signal.aborted) {
      try {
        const drained = await shipSpool({
          directory,
          drain,
          log,
          targets: message.targets,
          afterSync: message.afterSync,
          gatherMs: message.gatherMs,
          signal: stopping.signal,
          nowMs: Date.now,
          more: listen(bell),
          onProgress: (progress) => post({ type: 'progress', progress }),
        })
        if (drained) post({ type: 'drained', directory })
        return
      } catch (error) {
        // A failure of the disk, or a missing segment: reported, and retried from the watermark.
        const code = codeOf(error)
        post({ type: 'failed', directory, problem: `${code === null ? '' : `${code}: `}${String(error)}` })
        await sleep(AFTER_FAILURE_MS, stopping.signal)
      }
    }
  }
  ship = (spool) => {
    const loop = run(spool).finally(() => loops.delete(loop))
    loops.add(loop)
  }
  for (const spool of message.spools) ship(spool)
}

const stop = async (): Promise<void> => {
  stopping.abort()
  await Promise.all(loops)
  await opened?.close()
  post({ type: 'stopped' })
}

/** Likewise: messages after the first wait for the start. */
let started: Promise<void> = Promise.resolve()
self.onmessage = ({ data }: MessageEvent<ToSender>) => {
  if (data.type === 'start') started = start(data)
  else started = started.then(() => (data.type === 'ship' ? ship?.(data.spool) : stop()))
}
