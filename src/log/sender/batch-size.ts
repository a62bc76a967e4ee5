// How much the sender sends together: as much as the log takes, and less for a while where that turned out to be too much.

import { APPEND_LIMITS } from '../append-limits.ts'
import type { AppendLimits } from '../port.ts'
import type { Shipment } from './shipments.ts'

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

  /** More than is sent together now. */
  isTooMuch(shipment: Shipment): boolean {
    return exceeds(shipment, this.limits)
  }

  /** Whether these may have been too much together, for the topic or for the time of an append; then the next ones are fewer. */
  mayBeTooMuch(shipment: Shipment): boolean {
    const isLarge = exceeds(shipment, APPEND_LIMITS)
    if (isLarge) this.smallBatches = SMALL_BATCHES
    return isLarge
  }
}

/** One record cannot be divided. */
const exceeds = ({ records, bytes }: Shipment, limits: AppendLimits): boolean =>
  records.length > 1 && (records.length > limits.records || bytes > limits.bytes)
