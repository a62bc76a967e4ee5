// A record of a spool, in the form that readers of its segments get.
import type { Frame, SegmentHeader, SpoolTopic } from './frame.ts'
import type { FrameSubject } from './frame-subject.ts'

/** A record of a spool. `record` numbers all of the spool, `offset` those of its topic. */
export interface SpoolRecord {
  readonly record: number
  readonly topic: SpoolTopic
  readonly offset: number
  readonly instance: string
  readonly epoch: string
  readonly sequence: number
  readonly atMs: number
  readonly type: string
  readonly subject: string
  /** Type and subject: one object for records that share both and are read shortly after each other. */
  readonly about: FrameSubject
  /** JSON text. */
  readonly data: string
  /** Upper bound of its UTF-8 bytes. */
  readonly dataBytes: number
  /** Copies the UTF-8 of `data`; returns its end. */
  writeData(into: Buffer, at: number): number
}

/** Its texts are decoded from the bytes of the segment on access: readers pass over most records of others. */
export class FrameOfSpool implements SpoolRecord {
  constructor(
    private readonly frame: Frame,
    private readonly header: SegmentHeader,
  ) {}
  get record(): number {
    return this.frame.record
  }
  get topic(): SpoolTopic {
    return this.frame.topic as SpoolTopic // headers and carried copies are no records
  }
  get offset(): number {
    return this.frame.offset
  }
  get instance(): string {
    return this.header.instance
  }
  get epoch(): string {
    return this.header.epoch
  }
  get sequence(): number {
    return this.frame.sequence
  }
  get atMs(): number {
    return this.frame.atMs
  }
  get type(): string {
    return this.frame.type
  }
  get subject(): string {
    return this.frame.subject
  }
  get about(): FrameSubject {
    return this.frame.about
  }
  get data(): string {
    return this.frame.data
  }
  get dataBytes(): number {
    return this.frame.end - this.frame.start
  }
  writeData(into: Buffer, at: number): number {
    return this.frame.writeData(into, at)
  }
}
