// Turns the records of a batch into appends, for each partition one after the other.

import type { AppendLimits } from '../port.ts'
import { type FrameSubject, MOST_READ, type SpoolRecord, type SpoolTopic } from '../segments/segments.ts'
import { partitionOf } from '../topics.ts'
import { EnvelopeHead, SpooledEnvelope } from './envelope-bytes.ts'

export interface ShipTarget {
  readonly topic: string
  /** The count that the chain records. */
  readonly partitions: number
}

/** The shipments of one partition, in order. */
interface ShipmentQueue {
  readonly topic: string
  readonly partition: number
  readonly shipments: Shipment[]
}

/** The records of one append. */
export interface Shipment {
  readonly topic: string
  readonly partition: number
  readonly records: SpooledEnvelope[]
  /** Upper bound of values and keys: the guaranteed size of a topic has little room for keys. */
  bytes: number
  /** One record that would prevent the others from being packed. */
  readonly isAlone: boolean
}

/** Splits a shipment into two with half of the records each, in order. */
export const halvesOf = (shipment: Shipment): Shipment[] => {
  const half = shipment.records.length >> 1
  return [shipment.records.slice(0, half), shipment.records.slice(half)].map((records) => {
    const bytes = records.reduce((sum, { valueBound, key }) => sum + valueBound + Buffer.byteLength(key), 0)
    return { ...shipment, records, bytes }
  })
}

/** The partition of the records of a subject, and the common part of their envelopes. */
interface Destination {
  readonly subject: string
  readonly keyBytes: number
  readonly queue: ShipmentQueue
  readonly heads: EnvelopeHead[]
}

/** Most processes write for fewer subjects, each of a handful of types. All are dropped together. */
const MOST_SUBJECTS = 256
const MOST_TYPES = 16

/**
 * The partition of records of one type, subject and writer, and the head of their envelopes: found by the `about`
 * object that such records share (docs/decisions/0038-produce-of-our-own.md).
 */
interface Route {
  readonly about: FrameSubject
  readonly kind: SpoolTopic
  readonly destination: Destination
  readonly head: EnvelopeHead
}

/** Sorts records into shipments. Routes of subjects are cached from batch to batch (`bench -- tricks`, lanes). */
export class Shipments {
  private readonly bySubject = { requests: new Map<string, Destination>(), operations: new Map<string, Destination>() }
  private readonly byPartition = new Map<string, ShipmentQueue>()
  private loaded: ShipmentQueue[] = []
  private readonly routes: Route[] = []
  private nextRoute = 0

  constructor(
    private readonly targets: Readonly<Record<SpoolTopic, ShipTarget>>,
    private readonly sizes: { readonly limits: AppendLimits },
  ) {}

  /** Returns its bytes in an append. */
  load(source: SpoolRecord): number {
    const { head, destination } = this.routeOf(source)
    const { queue, subject, keyBytes } = destination
    if (queue.shipments.length === 0) this.loaded.push(queue)
    const record = new SpooledEnvelope(source, head, subject)
    const bytes = record.valueBound + keyBytes
    const last = queue.shipments.at(-1)
    const { limits } = this.sizes
    const isLong = bytes > limits.longestBytes
    const fits =
      !isLong &&
      last !== undefined &&
      last.records.length < limits.records &&
      last.bytes + bytes <= limits.bytes &&
      !last.isAlone
    const { topic, partition } = queue
    const shipment: Shipment = fits ? last : { topic, partition, records: [], bytes: 0, isAlone: isLong }
    if (!fits) queue.shipments.push(shipment)
    shipment.records.push(record)
    shipment.bytes += bytes
    return bytes
  }

  /** Takes the shipments of all partitions that have some. */
  unload(): (readonly Shipment[])[] {
    const taken = this.loaded.map(({ shipments }) => shipments.splice(0))
    this.loaded = []
    return taken
  }

  private routeOf(source: SpoolRecord): Route {
    const { about, topic: kind } = source
    const { routes } = this
    for (let i = 0; i < routes.length; i++) {
      const route = routes[i]!
      // Another instance or epoch has another head.
      if (route.about === about && route.kind === kind && route.head.isOf(source, about.type)) return route
    }
    const destination = this.destinationOf(kind, about.subject)
    const route = { about, kind, destination, head: headOf(destination, source, about.type) }
    routes[this.nextRoute] = route
    this.nextRoute = (this.nextRoute + 1) % MOST_READ
    return route
  }

  private destinationOf(kind: SpoolTopic, subject: string): Destination {
    const existing = this.bySubject[kind].get(subject)
    if (existing !== undefined) return existing
    if (this.bySubject[kind].size >= MOST_SUBJECTS) this.bySubject[kind].clear()
    const { topic, partitions } = this.targets[kind]
    const partition = partitionOf(subject, partitions)
    const name = `${topic}/${partition}`
    const queue = this.byPartition.get(name) ?? { topic, partition, shipments: [] }
    this.byPartition.set(name, queue)
    const made = { subject, keyBytes: Buffer.byteLength(subject), queue, heads: [] }
    this.bySubject[kind].set(subject, made)
    return made
  }
}

const headOf = ({ heads, subject }: Destination, source: SpoolRecord, type: string): EnvelopeHead => {
  for (const head of heads) if (head.isOf(source, type)) return head
  const { instance, epoch } = source
  const made = new EnvelopeHead({ instance, epoch }, type, subject)
  if (heads.length >= MOST_TYPES) heads.length = 0
  heads.push(made)
  return made
}
