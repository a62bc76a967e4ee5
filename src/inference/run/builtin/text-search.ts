// `text_search`: ranks texts that the model supplies (BM25). The index lives as long as the call.
import MiniSearch from 'minisearch'
import { ToolFailure, type ToolHandler } from './handler.ts'

const DEFAULT_LIMIT = 10
/** UTF-16 units of all texts together. */
const MOST_TEXT = 1024 * 1024
/** Characters of a passage, the first match near its beginning. */
const PASSAGE = 240
const BEFORE_MATCH = 60

/** The text around the first of the words that match. */
const passageOf = (text: string, words: readonly string[]): string => {
  const lower = text.toLowerCase()
  const places = words.map((word) => lower.indexOf(word)).filter((place) => place >= 0)
  const first = places.length === 0 ? 0 : Math.min(...places)
  const from = Math.max(0, first - BEFORE_MATCH)
  const passage = text.slice(from, from + PASSAGE).toWellFormed()
  return `${from === 0 ? '' : '…'}${passage}${from + PASSAGE < text.length ? '…' : ''}`
}

/** `{"results": [{"index", "score", "passage"}]}`, best first; [] where nothing matches. */
export const textSearch: ToolHandler = (args) => {
  const { query, texts, limit = DEFAULT_LIMIT } = args as { query: string; texts: string[]; limit?: number }
  if (texts.reduce((size, text) => size + text.length, 0) > MOST_TEXT)
    throw new ToolFailure('too_large', `the texts have more than ${MOST_TEXT} characters together`)
  const index = new MiniSearch<{ id: number; text: string }>({ fields: ['text'] })
  index.addAll(texts.map((text, id) => ({ id, text })))
  const found = index.search(query, {
    prefix: (word) => word.length > 3,
    fuzzy: (word) => (word.length > 5 ? 1 : false),
    maxFuzzy: 1,
  })
  const results = found.slice(0, limit).map(({ id, score, terms }) => ({
    index: id as number,
    score: Math.round(score * 1_000) / 1_000,
    passage: passageOf(texts[id as number]!, terms),
  }))
  return JSON.stringify({ results })
}
