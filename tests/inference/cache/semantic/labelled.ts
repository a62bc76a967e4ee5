// The labelled pairs of tests/fixtures/semantic: a class, one text, another text on each line.
import { readFileSync } from 'node:fs'

export const CLASSES = [
  'same',
  'number',
  'unit',
  'date',
  'negation',
  'name',
  'antonym',
  'order',
  'quoted',
  'code',
] as const
export type PairClass = (typeof CLASSES)[number]

export interface Pair {
  readonly kind: PairClass
  readonly left: string
  readonly right: string
}

const FOLDER = `${import.meta.dir}/../../../fixtures/semantic`

export const labelledPairs = (name: 'tuning' | 'held-out'): readonly Pair[] =>
  readFileSync(`${FOLDER}/${name}.tsv`, 'utf8')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => {
      const [kind, left, right, ...more] = line.split('\t')
      if (left === undefined || right === undefined || more.length > 0 || !CLASSES.includes(kind as PairClass))
        throw new Error(`no labelled pair: ${line}`)
      return { kind: kind as PairClass, left, right }
    })
