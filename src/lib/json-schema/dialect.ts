// The draft that a schema declares.
import type { Draft } from './json-schema.ts'

const DIALECT = /^https?:\/\/json-schema\.org\/(?:draft[-/](\d{2}|\d{4}-\d{2})\/)?schema#?$/
/** Older drafts of each family differ only in keywords that schemas of requests do not use. */
const DRAFTS: Readonly<Record<string, Draft>> = {
  '2020-12': '2020-12',
  '2019-09': '2020-12',
  '07': 'draft-07',
  '06': 'draft-07',
  '04': 'draft-07',
}

/** The draft that `$schema` names, 2020-12 when it is absent; null for an unknown one. */
export const draftOf = ($schema: unknown): Draft | null => {
  if ($schema === undefined) return '2020-12'
  const match = typeof $schema === 'string' ? DIALECT.exec($schema) : null
  if (match === null) return null
  return match[1] === undefined ? '2020-12' : (DRAFTS[match[1]] ?? null)
}
