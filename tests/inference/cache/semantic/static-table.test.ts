import { beforeAll, describe, expect, test } from 'bun:test'
import { readFileSync, statSync } from 'node:fs'
import {
  loadStaticTable,
  STATIC_TABLE_FILE,
  type StaticTable,
  staticTable,
} from '../../../../src/inference/cache/semantic/static-table.ts'
import { similarity } from '../../../../src/inference/cache/semantic/vector.ts'
import { wordPieces } from '../../../../src/inference/cache/semantic/word-pieces.ts'
import { sha256Hex } from '../../../../src/lib/crypto/digest.ts'

const README = readFileSync(`${import.meta.dir}/../../../../infra/semantic/README.md`, 'utf8')

describe('pieces of words', () => {
  const numbers = new Map(
    ['un', '##aff', '##able', 'play', '##ing', 'cafe', 'a', 'b', '1'].map((piece, i) => [piece, i]),
  )
  const piecesOf = (text: string) => {
    const names = [...numbers.keys()]
    return wordPieces(text, numbers).map((number) => names[number])
  }

  test('are the longest ones of the vocabulary, from the front', () => {
    expect(piecesOf('Unaffable PLAYING')).toEqual(['un', '##aff', '##able', 'play', '##ing'])
    expect(piecesOf('caf\u00e9, a-b (1)')).toEqual(['cafe', 'a', 'b', '1'])
  })

  test('a word that has none is left out and counted', () => {
    let unknown = 0
    expect(wordPieces(`play zzz ${'a'.repeat(101)}`, numbers, () => unknown++)).toEqual([3])
    expect(unknown).toBe(2)
  })
})

describe('the static table', () => {
  let table: StaticTable
  beforeAll(async () => {
    table = await loadStaticTable()
  })
  const like = (left: string, right: string) => similarity(table.vectorOf(left)!, table.vectorOf(right)!)!

  test('is the file that infra/semantic/README.md describes, and has at most 8 MB', () => {
    expect(statSync(STATIC_TABLE_FILE).size).toBeLessThanOrEqual(8_000_000)
    expect(README).toContain(sha256Hex(readFileSync(STATIC_TABLE_FILE)))
  })

  test('words of a kind are nearer than others', () => {
    expect(like('dog', 'puppy')).toBeGreaterThan(like('dog', 'mortgage') + 0.2)
    expect(like('car', 'automobile')).toBeGreaterThan(like('car', 'banana') + 0.2)
    expect(like('How do I bake bread?', 'Baking bread')).toBeGreaterThan(0.7)
  })

  test('a text of another script, without a known word, or too long has no vector', () => {
    for (const text of ['', '?!', 'Что это?', '你好', 'hello 世界', 'x '.repeat(1_001)])
      expect(table.vectorOf(text)).toBeNull()
  })

  test('bytes that are no table, or a cut one, are refused', () => {
    const bytes = readFileSync(STATIC_TABLE_FILE)
    expect(() => staticTable(bytes.subarray(0, bytes.length - 1))).toThrow('damaged')
    expect(() => staticTable(Buffer.from('{"format":"x"}\n0000'))).toThrow('another format')
  })
})
