// The thread that folds: records in, batches out. It touches nothing but what it is sent.
import { PIECE_BYTES } from '../../copy.ts'
import type { Cuts } from '../../usage/closed.ts'
import { BatchFold, type FoldedBatch, type PartitionState } from './fold-batch.ts'
import { type Carrier, type Parcel, unpack } from './parcel.ts'

export type ToFolder =
  | { readonly tell: 'open'; readonly partitions: readonly PartitionState[]; readonly cuts: Cuts }
  | { readonly tell: 'fold'; readonly parcel: Parcel }
  /** The batch ends here. */
  | { readonly tell: 'take' }
  /** A batch was written: its memory, to be filled again. */
  | { readonly tell: 'reuse'; readonly pieces: readonly Uint8Array<ArrayBuffer>[] }

export type FromFolder =
  /** A parcel was folded: its memory, to be filled again. */
  { readonly tell: 'folded'; readonly carrier: Carrier } | { readonly tell: 'batch'; readonly batch: FoldedBatch }

declare const self: Worker

const free: Uint8Array<ArrayBuffer>[] = []
const makePiece = () => free.pop() ?? new Uint8Array(PIECE_BYTES)
let fold: BatchFold | null = null

const answer = (message: FromFolder, buffers: readonly ArrayBuffer[]) => self.postMessage(message, [...buffers])

const heard = (message: ToFolder): void => {
  if (message.tell === 'open') fold = new BatchFold(message.partitions, message.cuts, makePiece)
  else if (message.tell === 'fold') {
    const { parcel } = message
    for (const record of unpack(parcel)) fold!.add(parcel.partition, record)
    const { numbers, bytes } = parcel
    answer({ tell: 'folded', carrier: { numbers, bytes } }, [numbers.buffer, bytes.buffer])
  } else if (message.tell === 'take') {
    const batch = fold!.take()
    answer(
      { tell: 'batch', batch },
      [...batch.request, ...batch.detail, ...batch.usage.map(({ text }) => text)].map(({ buffer }) => buffer),
    )
  } else free.push(...message.pieces.filter(({ buffer }) => buffer.byteLength === PIECE_BYTES))
}

self.onmessage = ({ data }: MessageEvent<ToFolder>) => heard(data)
