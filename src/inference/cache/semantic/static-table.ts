// Vectors of English texts without a model: the mean of the vectors of their pieces, which stand in a table that ships
// with the gateway (`infra/semantic/README.md` describes how it is made). Loaded when a rule first needs it.
import { readFile } from 'node:fs/promises'
import { ownFile } from '../../../lib/own-files.ts'
import { tokensOf } from './tokens.ts'
import { unitVector } from './vector.ts'
import { type PieceNumbers, wordPieces } from './word-pieces.ts'

const FORMAT = 'gatelog-static-table/1'
const LINE_END = 0x0a

export interface StaticTable {
  readonly dimensions: number
  /** Null for a text of another script, one that is too long, or one without a known word. */
  vectorOf(text: string): Int8Array | null
}

export const STATIC_TABLE_FILE = ownFile('src/inference/cache/semantic/static-table.bin')

/** Rejects when the file is missing or damaged. */
export const loadStaticTable = async (path: string = STATIC_TABLE_FILE): Promise<StaticTable> =>
  staticTable(await readFile(path))

/** Reads the bytes of the file. Throws for any other bytes. */
export const staticTable = (bytes: Buffer): StaticTable => {
  const end = bytes.indexOf(LINE_END)
  const head = JSON.parse(bytes.subarray(0, end).toString('utf8')) as Record<string, unknown>
  const { format, pieces, dimensions } = head
  if (format !== FORMAT || typeof pieces !== 'number' || typeof dimensions !== 'number')
    throw new Error('the static table is of another format')
  const listBytes = bytes.readUInt32LE(end + 1)
  const list = end + 5
  const scalesAt = list + listBytes
  const rowsAt = scalesAt + pieces * 4
  const names = bytes.subarray(list, scalesAt).toString('utf8').split('\n')
  if (names.length !== pieces || bytes.length !== rowsAt + pieces * dimensions)
    throw new Error('the static table is damaged')
  const numbers: PieceNumbers = new Map(names.map((name, number) => [name, number]))
  const scales = new Float32Array(bytes.buffer.slice(bytes.byteOffset + scalesAt, bytes.byteOffset + rowsAt))
  const rows = new Int8Array(bytes.buffer, bytes.byteOffset + rowsAt, pieces * dimensions)
  return {
    dimensions,
    vectorOf(text) {
      const tokens = tokensOf(text)
      if (tokens === null) return null
      const words = tokens.map(({ text: word }) => word).join(' ')
      const sum = new Float64Array(dimensions)
      for (const piece of wordPieces(words, numbers)) {
        const scale = scales[piece]!
        const from = piece * dimensions
        for (let i = 0; i < dimensions; i++) sum[i]! += rows[from + i]! * scale
      }
      return unitVector(sum)
    },
  }
}
