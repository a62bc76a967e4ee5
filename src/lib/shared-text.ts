// Text that many records have in common for a while. A record that is put together of such texts is written without them: a log spells each of them once for
// a batch, and names it in all other records (log/frame.ts).
import { createHash } from 'node:crypto'
import { type TextPieces, wholeText } from './text-pieces.ts'

/** So many characters are worth a name in place of them. */
export const SHARED_CHARS = 64

/** Not for the text of a single record: it is made into bytes, and digested. */
export class SharedText {
  readonly bytes: Buffer
  /** 48 bits of its SHA-256: what records name it by. */
  readonly name: number
  /** The batch that spells it already. */
  batch = 0

  constructor(readonly text: string) {
    this.bytes = Buffer.from(text)
    this.name = createHash('sha256').update(this.bytes).digest().readUIntBE(0, 6)
  }

  /** For `join`. */
  toString(): string {
    return this.text
  }
}

/** Pieces that belong one after another; numbers stand for their digits. */
export type RecordText = string | readonly (string | number | SharedText)[]

export const wholeRecordText = (text: RecordText): string => wholeText(text as TextPieces)

/** As a piece: short ones are spelled in each record. */
export const sharedText = (text: string): SharedText | string =>
  text.length < SHARED_CHARS ? text : new SharedText(text)
