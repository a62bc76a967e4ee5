// The thread that folds: records in, batches out. It uses nothing but what it receives.
import { PIECE_BYTES } from '../../copy.ts'
import type { Cuts } from '../../usage/closed.ts'
import { BatchFold, type FoldedBatch, type PartitionState } from './fold-batch.ts'
import { type Carrier, type Parcel, unpack } from './parcel.ts'

export type ToFolder =
  | { readonly type: 'open'; readonly partitions: readonly PartitionState[]; readonly cuts: Cuts }
  | { readonly type: 'fold'; readonly parcel: Parcel }
  /** The batch ends here. */
  | { readonly type: 'take' }
  /** A batch was written: its memory, to be filled again. */
  | { readonly type: 'reuse'; readonly pieces: readonly Uint8Array<ArrayBuffer>[] }

export type FromFolder =
  /** A parcel was folded: its memory, to be filled again. */
  { readonly type: 'folded'; readonly carrier: Carrier } | { readonly type: 'batch'; readonly batch: FoldedBatch }

declare const self: Worker

const free: Uint8Array<ArrayBuffer>[] = []
const makePiece = () => free.pop() ?? new Uint8Array(PIECE_BYTES)
// The state of this thread: it folds for one load, which begins with `open`.
let fold: BatchFold | null = null

const post = (message: FromFolder, buffers: readonly ArrayBuffer[]) => self.postMessage(message, [...buffers])

const receive = (message: ToFolder): void => {
  if (message.type === 'open') fold = new BatchFold(message.partitions, message.cuts, makePiece)
  else if (message.type === 'fold') {
    const { parcel } = message
    for (const record of unpack(parcel)) fold!.add(parcel.partition, record)
    const { numbers, bytes } = parcel
    post({ type: 'folded', carrier: { numbers, bytes } }, [numbers.buffer, bytes.buffer])
  } else if (message.type === 'take') {
    const batch = fold!.take()
    post(
      { type: 'batch', batch },
      [...batch.request, ...batch.detail, ...batch.usage.map(({ text }) => text)].map(({ buffer }) => buffer),
    )
  } else free.push(...message.pieces.filter(({ buffer }) => buffer.byteLength === PIECE_BYTES))
}

self.onmessage = ({ data }: MessageEvent<ToFolder>) => receive(data)
