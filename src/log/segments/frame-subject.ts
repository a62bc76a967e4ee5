// Type and subject of a record, as bytes and as texts. Records come in runs of a few subjects, of two types each, so
// the last ones are cached: a hit costs a tenth of decoding or encoding the texts.

export interface FrameSubject {
  readonly type: string
  readonly subject: string
  /** UTF-8 bytes of the type, then of the subject. */
  readonly bytes: Buffer
  readonly typeBytes: number
}

/** The writer compares texts with all of them before a miss, on the serving thread. */
const MOST_WRITTEN = 4
/**
 * On a miss the reader makes two texts and a copy; a comparison with another entry mostly ends at the first word or
 * the length.
 */
export const MOST_READ = 16
const WORD_BYTES = 4

class LastSubjects {
  readonly all: FrameSubject[] = []
  readonly #most: number
  #next = 0

  constructor(most: number) {
    this.#most = most
  }

  add(subject: FrameSubject): FrameSubject {
    this.all[this.#next] = subject
    this.#next = (this.#next + 1) % this.#most
    return subject
  }
}

const written = new LastSubjects(MOST_WRITTEN)
/** Separate caches: invalid UTF-8 decodes to a text whose bytes differ. */
const read = new LastSubjects(MOST_READ)

/** Type and subject of a record to write; the same object while it is cached. */
export const subjectOf = (type: string, subject: string): FrameSubject => {
  const { all } = written
  for (let i = 0; i < all.length; i++) if (all[i]!.subject === subject && all[i]!.type === type) return all[i]!
  return written.add({ type, subject, bytes: Buffer.from(type + subject), typeBytes: Buffer.byteLength(type) })
}

/**
 * Type and subject of a record that was read; the same object while it is cached. The bytes of the type begin at
 * `from`, those of the subject at `subjectAt`, and end at `to` (exclusive).
 */
export const subjectIn = (buffer: Buffer, from: number, subjectAt: number, to: number): FrameSubject => {
  const { all } = read
  const typeBytes = subjectAt - from
  for (let i = 0; i < all.length; i++) {
    const { bytes } = all[i]!
    if (bytes.length !== to - from || all[i]!.typeBytes !== typeBytes) continue
    if (isAt(bytes, buffer, from)) return all[i]!
  }
  const type = buffer.toString('utf8', from, subjectAt)
  const subject = buffer.toString('utf8', subjectAt, to)
  return read.add({ type, subject, bytes: Buffer.from(buffer.subarray(from, to)), typeBytes })
}

/**
 * Whether the bytes are in `buffer` at `at`. Compares four bytes at a time and from the end, as most begin alike: less
 * than half the time of the runtime's own comparison for 80 equal bytes.
 */
const isAt = (bytes: Buffer, buffer: Buffer, at: number): boolean => {
  let left = bytes.length
  for (; left >= WORD_BYTES; left -= WORD_BYTES) {
    if (bytes.readInt32LE(left - WORD_BYTES) !== buffer.readInt32LE(at + left - WORD_BYTES)) return false
  }
  while (left-- > 0) if (bytes[left] !== buffer[at + left]) return false
  return true
}
