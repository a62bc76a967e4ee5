// The thread that reads the control topic ahead of the fold: reads each record, checks what needs neither state nor
// parsing (id, MAC), sends it. `thread.ts` sends its commands.
import { LogGap } from '../../log/port.ts'
import { openThreadLog, type ThreadLog } from '../../log/thread-log.ts'
import { CONTROL } from '../fold.ts'
import { ParcelPacker } from './parcel.ts'

/** The records to read: from `from` up to the one before `until`. */
export interface ReadAheadSpan {
  readonly from: number
  readonly until: number
  readonly macKey: Uint8Array
}

export type ToReadAhead =
  | { readonly kind: 'start'; readonly log: ThreadLog; readonly span: ReadAheadSpan; readonly parcels: number }
  /** A parcel was folded: there is room for another one. */
  | { readonly kind: 'more' }
  | { readonly kind: 'stop' }

/** A text is a parcel. */
export type FromReadAhead = string | { readonly kind: 'ended'; readonly problem: string | null }

declare const self: Worker

const stopping = new AbortController()

/** Bounds the parcels that are sent and not folded. */
class ParcelRoom {
  #parcels = 0
  #onRoom: (() => void) | null = null

  add(parcels: number): void {
    this.#parcels += parcels
    this.wake()
  }

  wake(): void {
    this.#onRoom?.()
  }

  /** Takes the place of one parcel; resolves early once the thread stops. */
  async take(): Promise<void> {
    while (this.#parcels === 0 && !stopping.signal.aborted) {
      await new Promise<void>((resolve) => {
        this.#onRoom = resolve
      })
    }
    this.#parcels -= 1
  }
}

const room = new ParcelRoom()

const send = async (parcel: string | null): Promise<void> => {
  if (parcel === null) return
  await room.take()
  if (!stopping.signal.aborted) self.postMessage(parcel satisfies FromReadAhead)
}

const read = async (threadLog: ThreadLog, { from, until, macKey }: ReadAheadSpan): Promise<void> => {
  const log = await openThreadLog(threadLog)
  try {
    const packer = new ParcelPacker(macKey)
    let next = from
    for await (const batch of log.read(CONTROL, 0, from, stopping.signal)) {
      for (const record of batch) {
        if (next === until) break
        if (record.offset !== next) throw new LogGap(`${CONTROL} goes on at ${record.offset} instead of ${next}`)
        packer.add(record)
        next += 1
        if (packer.isFull) await send(packer.take())
      }
      if (next === until) break
    }
    await send(packer.take())
  } finally {
    await log.close()
  }
}

const ended = (problem: string | null): void => self.postMessage({ kind: 'ended', problem } satisfies FromReadAhead)

self.onmessage = ({ data }: MessageEvent<ToReadAhead>) => {
  if (data.kind === 'stop') {
    stopping.abort()
    room.wake()
  } else if (data.kind === 'more') room.add(1)
  else {
    room.add(data.parcels)
    void read(data.log, data.span).then(
      () => ended(null),
      (error: unknown) => ended(String(error)),
    )
  }
}
