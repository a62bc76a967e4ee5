// Rows into a table by COPY: cheaper for Postgres than the fastest INSERT, and the only way without parsing of
// statements.
import { storableText, type Transaction } from './database.ts'

export type CopyValue = string | number | boolean | null

/** Characters that the text format, or Postgres, cannot hold as they are. */
const UNSAFE = /[\\\t\n\r\0\ud800-\udfff]/

const ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', '\t': '\\t', '\n': '\\n', '\r': '\\r' }

const fieldOf = (value: CopyValue): string => {
  if (value === null) return '\\N'
  if (typeof value === 'string') {
    return UNSAFE.test(value) ? storableText(value).replace(/[\\\t\n\r]/g, (found) => ESCAPES[found]!) : value
  }
  if (typeof value === 'boolean') return value ? 't' : 'f'
  return String(value)
}

/**
 * JSON text as `JSON.stringify` makes it, in which every unsafe character has a backslash: a search for one backslash
 * is faster than the whole check.
 */
const jsonFieldOf = (text: string): string => (text.includes('\\') ? fieldOf(text) : text)

/** One row in the text format, its line end included. */
export const copyLine = (values: readonly CopyValue[]): string => {
  let line = fieldOf(values[0]!)
  for (let index = 1; index < values.length; index++) line += `\t${fieldOf(values[index]!)}`
  return `${line}\n`
}

/** The fields of a line that `copyLine` made, without its end, as text; null is null. */
export const readCopyLine = (line: string): (string | null)[] =>
  line.split('\t').map((field) => (field === '\\N' ? null : field.includes('\\') ? unescaped(field) : field))

const UNESCAPES: Readonly<Record<string, string>> = { t: '\t', n: '\n', r: '\r' }
const unescaped = (field: string): string => field.replace(/\\(.)/g, (_, code: string) => UNESCAPES[code] ?? code)

export const PIECE_BYTES = 64 * 1_024
/** UTF-8 of a UTF-16 unit at most. */
const UNIT_BYTES = 3
const TAB = 9
const LINE_FEED = 10

/** Lines as UTF-8, in pieces. */
export class CopyText {
  readonly #full: Uint8Array<ArrayBuffer>[] = []
  #piece: Buffer<ArrayBuffer> | null = null
  #used = 0

  /** `makePiece`: memory to write to, of `PIECE_BYTES`. */
  constructor(readonly makePiece: () => Uint8Array<ArrayBuffer> = () => new Uint8Array(PIECE_BYTES)) {}

  add(line: string): void {
    const most = line.length * UNIT_BYTES
    if (this.#piece === null || this.#used + most > this.#piece.length) this.#begin(most)
    this.#used += this.#piece!.write(line, this.#used)
  }

  /** Adds a line that ends in JSON texts: long ones, which are never joined to a string. */
  addJson(values: readonly CopyValue[], texts: readonly (string | null)[]): void {
    const head = copyLine(values).slice(0, -1)
    const fields = texts.map((text) => (text === null ? '\\N' : jsonFieldOf(text)))
    const most = UNIT_BYTES * fields.reduce((sum, { length }) => sum + length, head.length) + fields.length + 1
    if (this.#piece === null || this.#used + most > this.#piece.length) this.#begin(most)
    const piece = this.#piece!
    let at = this.#used + piece.write(head, this.#used)
    for (const field of fields) {
      piece[at] = TAB
      at += 1 + piece.write(field, at + 1)
    }
    piece[at] = LINE_FEED
    this.#used = at + 1
  }

  /** What was added since the last call. Each piece is the begin of a buffer of its own. */
  take(): readonly Uint8Array<ArrayBuffer>[] {
    this.#end()
    return this.#full.splice(0)
  }

  #begin(bytes: number): void {
    this.#end()
    const memory = bytes > PIECE_BYTES ? new Uint8Array(bytes) : this.makePiece()
    this.#piece = Buffer.from(memory.buffer)
  }

  #end(): void {
    if (this.#piece !== null && this.#used > 0) this.#full.push(new Uint8Array(this.#piece.buffer, 0, this.#used))
    this.#piece = null
    this.#used = 0
  }
}

/**
 * Copies lines into a table, all or none. Rejects with the error of Postgres; the transaction is then spent, or the
 * savepoint that this stands in. `table` is quoted already.
 */
export const copyInto = async (
  sql: Transaction,
  table: string,
  columns: readonly string[],
  lines: readonly string[],
): Promise<void> => {
  if (lines.length > 0) await copyPieces(sql, table, columns, piecesOf(lines))
}

/** The same for lines that are UTF-8 already. Each piece is read before the next is taken. */
export const copyPieces = async (
  sql: Transaction,
  table: string,
  columns: readonly string[],
  pieces: Iterable<Uint8Array>,
): Promise<void> => {
  // The simple protocol: in the extended one the driver waits for ever after a refusal.
  const copy = await sql
    .unsafe(`copy ${table} (${columns.join(', ')}) from stdin`)
    .simple()
    .writable()
  const { promise: finished, resolve, reject } = Promise.withResolvers<void>()
  finished.catch(() => {}) // awaited below, perhaps after a refusal ended the loop
  copy.once('error', reject)
  copy.once('finish', resolve)
  const written = (chunk: Uint8Array) => new Promise<void>((done) => copy.write(chunk, () => done()))
  for (const piece of pieces) {
    if (copy.destroyed) break
    await written(piece)
  }
  copy.end()
  await finished
}

/** The lines in one buffer that is filled again and again. */
function* piecesOf(lines: readonly string[]): Generator<Uint8Array> {
  const memory = new Uint8Array(PIECE_BYTES)
  const text = new CopyText(() => memory)
  let chars = 0
  for (const line of lines) {
    if (chars > 0 && (chars + line.length) * UNIT_BYTES > PIECE_BYTES) {
      yield* text.take()
      chars = 0
    }
    text.add(line)
    chars += line.length
  }
  yield* text.take()
}
