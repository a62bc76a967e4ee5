// Lists as files: `format=csv` and `format=ndjson` of the rows of a read model, page by page, in the memory of a page
// or two.
import { t } from '../../lib/schema/schema.ts'
import { formatOf, linesOf } from './format.ts'
import { limitOf, Paging } from './list.ts'
import { reading } from './read-store.ts'

/** Most rows of a file; also the default without a `limit`. */
export const EXPORT_LIMIT = 1_000_000

/** Parameters of a list that is available as a file. */
export const ExportPaging = {
  ...Paging,
  limit: t.Optional(
    t.String({
      description:
        'Rows of one page, 50 by default; more than 1,000 is clamped. Of `csv` and `ndjson`: all rows, up to ' +
        '1,000,000.',
    }),
  ),
}

/**
 * The text of the requested file, one piece for each page; null when the query wants JSON. Throws 400 naming the
 * parameter.
 */
export const exported = <Filter extends { readonly limit: number }>(
  query: { readonly format?: string; readonly limit?: string },
  filter: Filter,
  columns: readonly string[],
  pages: (filter: Filter) => AsyncIterable<readonly object[]>,
): AsyncIterable<string> | null => {
  const format = formatOf(query.format)
  if (format === 'json') return null
  const limit = limitOf(query.limit, EXPORT_LIMIT, EXPORT_LIMIT)
  return written(pages({ ...filter, limit }), columns, format)
}

async function* written(
  pages: AsyncIterable<readonly object[]>,
  columns: readonly string[],
  format: 'csv' | 'ndjson',
): AsyncGenerator<string, void> {
  const iterator = pages[Symbol.asyncIterator]()
  try {
    for (let first = true; ; first = false) {
      const { done, value: rows } = await reading(iterator.next())
      if (first || done !== true) yield linesOf(done === true ? [] : rows, columns, format, first)
      if (done === true) return
    }
  } finally {
    await iterator.return?.()
  }
}

/**
 * Pieces as a body that is produced only as it is read. Rejects when the first piece fails. When a later one fails, the
 * body breaks off, so that a client does not take a part for the whole.
 */
export const streamOf = async (pieces: AsyncIterable<string>): Promise<ReadableStream<Uint8Array>> => {
  const iterator = pieces[Symbol.asyncIterator]()
  const encoder = new TextEncoder()
  let held: IteratorResult<string> | null = await iterator.next()
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done, value } = held ?? (await iterator.next())
        held = null
        if (done === true) controller.close()
        else controller.enqueue(encoder.encode(value))
      } catch {
        controller.error() // with a reason, the runtime would print it
      }
    },
    async cancel() {
      await iterator.return?.()
    },
  })
}
