// What the tests of packed segments share: records that are like each other or not, and what stands in a file.
import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { readFrame, type StoredFrame } from '../../../src/log/segments/frame.ts'
import { listSegments } from '../../../src/log/segments/writer.ts'
import type { LocalSpool } from '../../../src/log/spool/open.ts'

/** How a record differs from the one before it. */
export interface Given {
  readonly kind: number
  readonly chars: number
  readonly isNoise: boolean
  readonly isOperation: boolean
}
export const given: fc.Arbitrary<Given> = fc.record({
  kind: fc.nat(5),
  chars: fc.oneof(
    { weight: 9, arbitrary: fc.nat(900) },
    { weight: 1, arbitrary: fc.integer({ min: 20_000, max: 50_000 }) },
  ),
  isNoise: fc.boolean(),
  isOperation: fc.boolean(),
})
const noise = (chars: number): string =>
  Buffer.from(crypto.getRandomValues(new Uint8Array(chars)))
    .toString('base64')
    .slice(0, chars)
export const textOf = (index: number, { kind, chars, isNoise }: Given): string =>
  JSON.stringify({ index, kind: `é${kind}`, text: isNoise ? noise(chars) : 'ab"c'.repeat(chars / 4) })

export const appendAll = (spool: LocalSpool, texts: readonly string[], all: readonly Given[]) =>
  Promise.all(
    texts.map((text, at) => {
      const { isOperation, kind } = all[at]!
      return spool.append(isOperation ? 'operations' : 'requests', `type.${kind}`, `tenant ${kind % 3}`, text)
    }),
  )
export const likeEachOther = (count: number): Given[] =>
  Array.from({ length: count }, () => ({ kind: 1, chars: 400, isNoise: false, isOperation: false }))
export const textsOf = (all: readonly Given[], from = 0): string[] => all.map((one, at) => textOf(from + at, one))

/** Frames of a file as they stand there. */
export const storedIn = (bytes: Buffer): StoredFrame[] => {
  const all: StoredFrame[] = []
  for (let at = 0; at < bytes.length; at = all.at(-1)!.end) {
    const frame = readFrame(bytes, at, bytes.length)
    if (typeof frame === 'string') throw new Error(`${frame} at ${at}`)
    all.push(frame)
  }
  return all
}
export const bytesOf = ({ directory }: { readonly directory: string }): Buffer =>
  readFileSync(listSegments(directory).at(-1)!.path)
