// How much the sender sends together: as much as the log takes, and less for a while where that turned out to be too much.
import type { AppendLimits } from './port.ts'
import { APPEND_LIMITS } from './port-limits.ts'
import type { Shipment } from './sender-lanes.ts'

/** So many batches stay small, before as much as the log says is tried again. */
const SMALL_BATCHES = 256

export class AppendSizes {
  private smallBatches = 0

  constructor(private readonly most: AppendLimits) {}

  get limits(): AppendLimits {
    return this.smallBatches > 0 ? APPEND_LIMITS : this.most
  }

  /** A batch is in the log. */
  delivered(): void {
    if (this.smallBatches > 0) this.smallBatches--
  }

  /** Of several, which can be divided. */
  isTooMuch({ records, bytes }: Shipment): boolean {
    const { limits } = this
    return records.length > 1 && (records.length > limits.records || bytes > limits.bytes)
  }

  /** Whether these may have been too much together, for the topic or for the time of an append; then the next ones are fewer. */
  mayBeTooMuch({ records, bytes }: Shipment): boolean {
    const isLarge = records.length > 1 && (records.length > APPEND_LIMITS.records || bytes > APPEND_LIMITS.bytes)
    if (isLarge) this.smallBatches = SMALL_BATCHES
    return isLarge
  }
}
