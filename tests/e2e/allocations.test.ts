// A request allocates no more than tests/fixtures/allocations.json records. tests/bench/allocations.ts counts.
import { afterAll, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Allocations, COUNTS, type Count, counted, totalOf } from '../bench/allocations.ts'
import { startLoad } from '../bench/contenders.ts'

/** Counts differ by one or two in a hundred from run to run, whatever the machine does. */
const MOST_MORE = 1.2

const recorded = JSON.parse(readFileSync(join(import.meta.dir, '../fixtures/allocations.json'), 'utf8')) as Record<
  Count,
  Allocations
>
const load = await startLoad(null)
afterAll(() => load.stop())

for (const name of Object.keys(COUNTS) as Count[])
  test(`${name}: no more objects and bytes than were counted when that was last looked at, and a fifth`, async () => {
    const now = await counted(load, name)
    const before = recorded[name]
    const grown = Object.entries(now.objects).filter(([type, count]) => count > (before.objects[type] ?? 0) + 1)
    const told = grown.map(([type, count]) => `${type} ${before.objects[type] ?? 0} -> ${count}`)
    if (totalOf(now) > totalOf(before) * MOST_MORE || now.bytes > before.bytes * MOST_MORE)
      throw new Error(
        'more is made for each request: ' +
          `${[...told, `bytes ${before.bytes} -> ${now.bytes}`].join(', ')}; if that is meant, record ` +
          'it (npm run bench -- allocations)',
      )
    expect(totalOf(now)).toBeGreaterThan(0)
    expect(now.bytes).toBeGreaterThan(0)
  })
