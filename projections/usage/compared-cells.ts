// Compares the cells of usage with what they should be, one bucket at a time.
import { TOPICS } from '../../src/log/topics.ts'
import type { Problems } from '../agreement.ts'
import type { Cell, Tier } from './cells.ts'
import { addBins, writtenBins } from './histogram.ts'
import { SUMS } from './share.ts'

/** The cells of a bucket, by key. */
export type Cells = Map<string, { readonly sums: number[]; readonly latency: number[]; readonly ttft: number[] }>

/** Names hold no NUL. */
export const nameOf = (dimension: string, tenantId: string, name: string, model: string): string =>
  [dimension, tenantId === '' ? 'nobody' : tenantId, name, model].join('\0')

const shown = (name: string): string =>
  name
    .split('\0')
    .filter((part) => part !== '')
    .join(' ')

export const cellName = ({ dimension, tenantId, name, model }: Cell): string => nameOf(dimension, tenantId, name, model)

export const addCell = (
  cells: Cells,
  name: string,
  { sums, latency, ttft }: Pick<Cell, 'sums' | 'latency' | 'ttft'>,
) => {
  const held = cells.get(name)
  if (held === undefined) {
    cells.set(name, { sums: [...sums], latency: [...latency], ttft: [...ttft] })
    return
  }
  for (let at = 0; at < sums.length; at++) held.sums[at]! += sums[at]!
  addBins(held.latency, latency)
  addBins(held.ttft, ttft)
}

export type StoredCell = Record<(typeof SUMS)[number], number> & {
  readonly bucket_ms: number
  readonly dimension: string
  readonly tenant_id: string
  readonly name: string
  readonly model: string
  readonly latency: string
  readonly ttft: string
}

export interface ComparedBucket {
  readonly tier: Tier
  /** Start of the bucket, Unix milliseconds. */
  readonly bucketMs: number
  readonly expected: Cells
  /** What the expected cells were made from: the rows of the request log, or a closed day of `gateway.usage.v1`. */
  readonly source: 'rows' | 'closed'
}

/** Reports each cell of a bucket that is lacking, surplus or different. */
export const compareCells = (
  { tier, bucketMs, expected, source }: ComparedBucket,
  stored: readonly StoredCell[],
  problems: Problems,
): void => {
  const where = `usage of the ${tier} ${new Date(bucketMs).toISOString().slice(0, tier === 'day' ? 10 : 16)}`
  const from = source === 'rows' ? 'the request log' : TOPICS.usage.name
  const left = new Map(expected)
  for (const row of stored) {
    const name = nameOf(row.dimension, row.tenant_id, row.name, row.model)
    const wanted = left.get(name)
    left.delete(name)
    if (wanted === undefined) {
      problems.report(`${where} has ${shown(name)}, which ${from} does not give`)
      continue
    }
    const different = SUMS.filter((sum, at) => row[sum] !== wanted.sums[at]).map(
      (sum) => `${sum} ${row[sum]} instead of ${wanted.sums[SUMS.indexOf(sum)]}`,
    )
    if (row.latency !== writtenBins(wanted.latency)) different.push('latency')
    if (row.ttft !== writtenBins(wanted.ttft)) different.push('ttft')
    if (different.length > 0)
      problems.report(`${where} differs from ${from} in ${shown(name)}: ${different.join(', ')}`)
  }
  for (const name of left.keys()) problems.report(`${where} lacks ${shown(name)}, which ${from} gives`)
}
