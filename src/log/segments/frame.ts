// The segment frame, the form of a record in a segment file: magic, CRC-32, length, numbers, then type, subject and
// data as UTF-8. Pure.
import { charsOf, type TextPieces, wholeText, writeText } from '../../lib/text/text-pieces.ts'
import { type FrameSubject, subjectIn, subjectOf } from './frame-subject.ts'

/** Two bytes that never occur in UTF-8, so that text is never mistaken for the head of a frame. */
const MAGIC = 0x32_4c_fe_ff
/** As it stands in a file, but for the last byte. */
const MAGIC_BYTES = Buffer.from([0xff, 0xfe, 0x4c])
/** In its place until a frame is sealed. */
const UNSEALED = 0
export const FRAME_HEAD_BYTES = 48
/** Longer ones are damage. A record is at most 64 KiB; the rest is room for type, subject and carried copies. */
const MAX_PAYLOAD_BYTES = 256 * 1024
/** No frame is longer. */
export const MAX_FRAME_BYTES = FRAME_HEAD_BYTES + MAX_PAYLOAD_BYTES

/** What a process writes to its segments. `header` opens a segment, `carried` repeats an open admission at its head. */
export const FRAME_TOPICS = ['requests', 'operations', 'carried', 'header'] as const
export type FrameTopic = (typeof FRAME_TOPICS)[number]
export type SpoolTopic = 'requests' | 'operations'

/** The numbers of a frame: its record within the spool, its offset in its topic, and its sequence in (epoch, topic). */
export interface FrameNumbers {
  readonly record: number
  readonly offset: number
  readonly sequence: number
  readonly atMs: number
}

export interface Frame extends FrameNumbers {
  readonly topic: FrameTopic
  readonly type: string
  readonly subject: string
  /** Type and subject: one object for frames that share both and are read shortly after each other. */
  readonly about: FrameSubject
  /** JSON text. */
  readonly data: string
  /** Its position in the scanned bytes, and that of the next frame. */
  readonly start: number
  readonly end: number
  /** Copies the UTF-8 of `data`; returns its end. */
  writeData(into: Buffer, at: number): number
}

/** Upper bound of the bytes of a frame with these texts. */
export const frameBound = (type: string, subject: string, data: TextPieces): number =>
  FRAME_HEAD_BYTES + 3 * (type.length + subject.length + charsOf(data))

/** Whether the text has more bytes than `bytes`. */
export const isLonger = (text: TextPieces, bytes: number): boolean =>
  charsOf(text) * 3 > bytes && Buffer.byteLength(wholeText(text)) > bytes

/**
 * CRC-32, which the runtime computes natively: CRC-32C in JavaScript is several times slower and finds the same damage,
 * a torn tail and flipped bits.
 */
const checksum = (buffer: Buffer, start: number, end: number): number => Bun.hash.crc32(buffer.subarray(start, end))

export interface FrameTexts {
  readonly type: string
  readonly subject: string
  /** JSON text. */
  readonly data: TextPieces
}

/** Writes a frame at `at` into a buffer that has `frameBound` bytes of room there; returns where it ends. */
export const writeFrame = (
  buffer: Buffer,
  at: number,
  topic: FrameTopic,
  numbers: FrameNumbers,
  { type, subject, data }: FrameTexts,
): number => {
  const end = writeUnsealed(buffer, at, topic, numbers, subjectOf(type, subject), data)
  sealFrame(buffer, at, end)
  return end
}

/**
 * The same without its checksum: no reader takes it for a frame until it is sealed. Positional, as every record passes
 * here.
 */
export const writeUnsealed = (
  buffer: Buffer,
  at: number,
  topic: FrameTopic,
  numbers: FrameNumbers,
  about: FrameSubject,
  data: TextPieces,
): number => {
  const payload = at + FRAME_HEAD_BYTES
  const { bytes, typeBytes } = about
  const end = writeText(buffer, payload + bytes.copy(buffer, payload), data)
  writeHead(buffer, at, end, topic, numbers, typeBytes, bytes.length - typeBytes)
  return end
}

const writeHead = (
  buffer: Buffer,
  at: number,
  end: number,
  topic: FrameTopic,
  numbers: FrameNumbers,
  typeBytes: number,
  subjectBytes: number,
): void => {
  buffer.writeUInt32LE(UNSEALED, at)
  buffer.writeUInt32LE(0, at + 4)
  buffer.writeUInt32LE(end - at - FRAME_HEAD_BYTES, at + 8)
  buffer[at + 12] = FRAME_TOPICS.indexOf(topic)
  buffer[at + 13] = typeBytes
  buffer.writeUInt16LE(subjectBytes, at + 14)
  buffer.writeDoubleLE(numbers.record, at + 16)
  buffer.writeDoubleLE(numbers.offset, at + 24)
  buffer.writeDoubleLE(numbers.sequence, at + 32)
  buffer.writeDoubleLE(numbers.atMs, at + 40)
}

/** Writes the checksum of a frame that ends at `end`. */
export const sealFrame = (buffer: Buffer, at: number, end: number): void => {
  buffer.writeUInt32LE(MAGIC, at)
  buffer.writeUInt32LE(checksum(buffer, at + 8, end), at + 4)
}

/** A frame in scanned bytes, which must not change: its texts are decoded on access. */
class ScannedFrame implements Frame {
  constructor(
    private readonly buffer: Buffer,
    readonly topic: FrameTopic,
    readonly start: number,
    private readonly subjectAt: number,
    private readonly dataAt: number,
    readonly end: number,
  ) {}
  get record(): number {
    return this.buffer.readDoubleLE(this.start + 16)
  }
  get offset(): number {
    return this.buffer.readDoubleLE(this.start + 24)
  }
  get sequence(): number {
    return this.buffer.readDoubleLE(this.start + 32)
  }
  get atMs(): number {
    return this.buffer.readDoubleLE(this.start + 40)
  }
  get type(): string {
    return this.about.type
  }
  get subject(): string {
    return this.about.subject
  }
  get about(): FrameSubject {
    return subjectIn(this.buffer, this.start + FRAME_HEAD_BYTES, this.subjectAt, this.dataAt)
  }
  get data(): string {
    return this.buffer.toString('utf8', this.dataAt, this.end)
  }
  writeData(into: Buffer, at: number): number {
    return at + this.buffer.copy(into, at, this.dataAt, this.end)
  }
}

/** Whether all bytes of the frame at `at` are loaded, if one begins there. */
export const isWhole = (buffer: Buffer, at: number, limit: number): boolean =>
  limit - at >= FRAME_HEAD_BYTES && at + FRAME_HEAD_BYTES + buffer.readUInt32LE(at + 8) <= limit

/** The whole and undamaged frame at `at`; `short` when the bytes end before it does, `damaged` otherwise. */
export const readFrame = (buffer: Buffer, at: number, limit: number): Frame | 'short' | 'damaged' => {
  if (limit - at < FRAME_HEAD_BYTES) return 'short'
  const payloadBytes = buffer.readUInt32LE(at + 8)
  if (buffer.readUInt32LE(at) !== MAGIC || payloadBytes > MAX_PAYLOAD_BYTES) return 'damaged'
  const payload = at + FRAME_HEAD_BYTES
  const end = payload + payloadBytes
  if (end > limit) return 'short'
  return checksum(buffer, at + 8, end) === buffer.readUInt32LE(at + 4) ? scanned(buffer, at, end) : 'damaged'
}

const scanned = (buffer: Buffer, at: number, end: number): Frame | 'damaged' => {
  const topic = FRAME_TOPICS[buffer[at + 12]!]
  if (topic === undefined) return 'damaged'
  const subject = at + FRAME_HEAD_BYTES + buffer[at + 13]!
  const data = subject + buffer.readUInt16LE(at + 14)
  if (data > end) return 'damaged'
  return new ScannedFrame(buffer, topic, at, subject, data, end)
}

/** The end that the head at `at` claims, damaged or not. Null: the claim is impossible. */
export const claimedEnd = (buffer: Buffer, at: number): number | null => {
  const payloadBytes = buffer.readUInt32LE(at + 8)
  const topic = FRAME_TOPICS[buffer[at + 12]!]
  const isPossible = buffer.readUInt32LE(at) === MAGIC && payloadBytes <= MAX_PAYLOAD_BYTES && topic !== undefined
  return isPossible ? at + FRAME_HEAD_BYTES + payloadBytes : null
}

/** The index of the zeros at the end of the bytes. */
export const endOfWritten = (buffer: Buffer, at: number, limit: number): number => {
  let end = limit
  while (end > at && buffer[end - 1] === 0) end--
  return end
}

/** The first undamaged frame that starts after `at`, or null when the bytes hold none. */
export const nextFrame = (buffer: Buffer, at: number, limit: number): Frame | null => {
  let candidate = buffer.indexOf(MAGIC_BYTES, at + 1)
  while (candidate !== -1 && candidate < limit) {
    const frame = readFrame(buffer, candidate, limit)
    if (typeof frame === 'object') return frame
    candidate = buffer.indexOf(MAGIC_BYTES, candidate + 1)
  }
  return null
}

/** Raised when segments, or the records in them, take a form that earlier builds do not have. */
export const SEGMENT_FORMAT = 2

/** The header of a segment; written twice, so that one damaged copy does not lose the segment. */
export interface SegmentHeader {
  readonly format: typeof SEGMENT_FORMAT
  readonly instance: string
  readonly epoch: string
  /** Numbers of the first record that follows. */
  readonly record: number
  readonly requests: number
  readonly operations: number
  /** How many `carried` frames follow the header, copies not counted. */
  readonly carried: number
  /** How often carried frames are written, each with its number as its sequence. Absent: once, and without numbers. */
  readonly copies?: 2
  /**
   * The first record before the segment that was not durable yet: a settlement from there on may be lost, so its
   * admission is carried.
   */
  readonly unsynced?: number
  readonly at_ms: number
}

/** The header in a `header` frame, or null when it is of another format. */
export const headerOf = (frame: Frame): SegmentHeader | null => {
  if (frame.topic !== 'header') return null
  const header = JSON.parse(frame.data) as SegmentHeader
  return header.format === SEGMENT_FORMAT ? header : null
}

/** Whether it is the header of a segment of another format. */
export const isOfOtherFormat = (frame: Frame): boolean => frame.topic === 'header' && headerOf(frame) === null
