// `gather`: batches of the log joined up to a bound.
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { gather } from '../../projections/gather.ts'
import type { LogRecord } from '../../src/log/port.ts'

const record = (offset: number, size = 10): LogRecord => ({ offset, atMs: 0, key: null, value: new Uint8Array(size) })

async function* source(batches: readonly (readonly LogRecord[])[], failure: Error | null = null) {
  for (const batch of batches) yield batch
  if (failure !== null) throw failure
}

const collect = async (from: AsyncIterable<readonly LogRecord[]>) => {
  const batches: (readonly LogRecord[])[] = []
  for await (const batch of from) batches.push(batch)
  return batches
}

const LIMITS = { maxRecords: 10, maxBytes: 1_000, waitMs: 5 }

describe('gather', () => {
  test('keeps every record and its order, within the limits', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.integer({ min: 1, max: 25 }), { maxLength: 12 }), async (sizes) => {
        let offset = 0
        const batches = sizes.map((size) => Array.from({ length: size }, () => record(offset++, offset % 90)))
        const gathered = await collect(gather(source(batches), { ...LIMITS, waitMs: 0 }))
        expect(gathered.flat().map((each) => each.offset)).toEqual(batches.flat().map((each) => each.offset))
        for (const batch of gathered) {
          expect(batch.length).toBeGreaterThan(0)
          expect(batch.length).toBeLessThanOrEqual(LIMITS.maxRecords)
          const bytes = batch.reduce((sum, { value }) => sum + value!.length + 64, 0)
          expect(batch.length === 1 || bytes <= LIMITS.maxBytes).toBe(true)
        }
      }),
      { numRuns: 30 },
    )
  })

  test('joins what is there at once', async () => {
    const batches = [[record(0)], [record(1)], [record(2)]]
    expect((await collect(gather(source(batches), LIMITS))).map((batch) => batch.length)).toEqual([3])
  })

  test('what came before a failure is yielded before it is thrown', async () => {
    const seen: number[] = []
    const run = async () => {
      for await (const batch of gather(source([[record(0)], [record(1)]], new Error('gap')), LIMITS)) {
        seen.push(...batch.map(({ offset }) => offset))
      }
    }
    await expect(run()).rejects.toThrow('gap')
    expect(seen).toEqual([0, 1])
  })
})
