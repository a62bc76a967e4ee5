// The format of a list: its body (JSON), or its rows alone as CSV or as one JSON object per line.
import { GatewayError } from '../../wire/errors.ts'

const FORMATS = ['json', 'csv', 'ndjson'] as const
export type ListFormat = (typeof FORMATS)[number]

export const CONTENT_TYPES: Record<ListFormat, string> = {
  json: 'application/json',
  csv: 'text/csv; charset=utf-8',
  ndjson: 'application/x-ndjson',
}

/** `format` of the query, `json` without one. Throws 400 naming it for any other value. */
export const formatOf = (text: string | undefined): ListFormat => {
  const format = FORMATS.find((known) => known === (text ?? 'json'))
  if (format !== undefined) return format
  throw new GatewayError('invalid_request', `"format" must be one of ${FORMATS.join(', ')}`, { param: 'format' })
}

/**
 * The text of a response. `csv` and `ndjson` hold the rows alone, in their order; the member `rows` of the body holds
 * them.
 * CSV is RFC 4180 with a header of the rows' fields. Without rows and without `columns` the text is empty.
 */
export const formatted = (body: unknown, rows: string, format: ListFormat, columns?: readonly string[]): string => {
  if (format === 'json') return JSON.stringify(body)
  const list = (body as Record<string, readonly object[]>)[rows]!
  const named = columns ?? [...new Set(list.flatMap((row) => Object.keys(row)))]
  return linesOf(list, named, format, format === 'csv')
}

/** Rows as CSV, below the header when there is none yet, or as one JSON object per line. */
export const linesOf = (
  rows: readonly object[],
  columns: readonly string[],
  format: 'csv' | 'ndjson',
  withHeader: boolean,
): string => {
  if (format === 'ndjson') return rows.map((row) => `${JSON.stringify(row)}\n`).join('')
  if (columns.length === 0) return ''
  const lines = rows.map((row) => columns.map((column) => cellOf((row as Record<string, unknown>)[column])).join(','))
  return (withHeader ? [columns.map(cellOf).join(','), ...lines] : lines).map((line) => `${line}\r\n`).join('')
}

/** File name of an export: `/usage/series` in CSV is saved as `usage-series.csv`. */
export const fileHeaders = (path: string, format: ListFormat): Record<string, string> =>
  format === 'json'
    ? {}
    : { 'content-disposition': `attachment; filename="${path.slice(1).replaceAll(/[^a-z]+/g, '-')}.${format}"` }

/**
 * What a spreadsheet takes for the beginning of a formula: a sign, also in full width, behind blanks and characters
 * that are not shown; or a line break or tab, behind which a formula may begin.
 */
const FORMULA = /^(?:[\t\r\n]|[\s\p{Z}\p{Cc}\p{Cf}]*[=+\-@\uff1d\uff0b\uff0d\uff20])/u

/**
 * Null is empty, a nested value is JSON. A spreadsheet would run a text that begins like a formula: a quote before it
 * prevents that.
 */
const cellOf = (value: unknown): string => {
  if (value === null || value === undefined) return ''
  if (typeof value !== 'string') return quoted(typeof value === 'object' ? JSON.stringify(value) : String(value))
  return quoted(FORMULA.test(value) ? `'${value}` : value)
}

const quoted = (text: string): string => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text)
