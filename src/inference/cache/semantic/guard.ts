// Whether two texts that look alike by their vectors request the same. Vectors do not tell 5 from 50, with from
// without, or London to Paris from Paris to London; this does, and rather refuses than guesses. Pure.
//
// A text is read as the kind of request that it is and the list of what it is about: numbers, units, negations, names,
// quoted text, code and addresses to the letter, other words by their stems. Both have to be equal, in order.
// Courtesies and the usual forms of a question are passed over.
import {
  ASKING,
  AUXILIARIES,
  EMPTY_WORDS,
  MEANING_OF,
  QUESTION_WORDS,
  RELATIONS,
  SAME_WORDS,
  stemOf,
} from './english.ts'
import { endingOf, openingOf, type RequestKind } from './phrases.ts'
import { type Token, tokensOf } from './tokens.ts'

/** Why two texts are not alike. */
export const UNLIKE_REASONS = ['script', 'kind', 'content', 'order', 'name', 'relation', 'one_word', 'empty'] as const
export type UnlikeReason = (typeof UNLIKE_REASONS)[number]

/** One thing that a text is about. */
interface Item {
  /** A stem, or a literal. */
  readonly text: string
  readonly isLiteral: boolean
  readonly isCapital: boolean
  /** An article stands in front of it, which may be a part of a name. */
  readonly hasArticle: boolean
  /** The relation that a preposition in front of it names; '' without one. */
  readonly relation: string
}

/** A text as the guard compares it. */
export interface ReadText {
  readonly kind: RequestKind
  /** The phrase that names the kind; '' without one. */
  readonly opening: string
  readonly items: readonly Item[]
  /** Words of time and possibility, in order. */
  readonly auxiliaries: readonly string[]
  /** All words, those without meaning included. */
  readonly words: readonly string[]
  /** Its writer uses capitals. */
  readonly usesCapitals: boolean
}

/** Reads a text once for many comparisons. Null: it is never alike to another. */
export const readText = (text: string): ReadText | null => {
  const tokens = tokensOf(text)
  if (tokens === null) return null
  const words = tokens.map(({ text: word }) => word)
  const ordered = openingFirst(tokens, words)
  const { rest, ...request } = withoutPhrases(ordered)
  return { ...request, ...itemsOf(rest), words, usesCapitals: usesCapitals(text, tokens) }
}

/** A writer who begins with a capital writes names with one. */
const usesCapitals = (text: string, tokens: readonly Token[]): boolean =>
  /^\P{L}*\p{Lu}/u.test(text) || tokens.some(({ isCapital }) => isCapital)

/** Null: both texts request the same. */
export const unlikeBy = (left: ReadText | null, right: ReadText | null): UnlikeReason | null => {
  if (left === null || right === null) return 'script'
  if (left.items.length === 0 || right.items.length === 0) return 'empty'
  if (!isSameKind(left.kind, right.kind)) return 'kind'
  const difference = compared(left, right)
  if (difference !== null) return difference
  return isSameButOneWord(left, right) ? 'one_word' : null
}

/** `own` and `what`: a bare phrase is a question for what it names. */
const isSameKind = (left: RequestKind, right: RequestKind): boolean =>
  left === right || (left === 'own' && right === 'what') || (left === 'what' && right === 'own')

const compared = (left: ReadText, right: ReadText): UnlikeReason | null => {
  if (left.items.length !== right.items.length) return 'content'
  if (left.auxiliaries.join(' ') !== right.auxiliaries.join(' ')) return 'content'
  let meanings = 0
  for (let i = 0; i < left.items.length; i++) {
    const [a, b] = [left.items[i]!, right.items[i]!]
    if (a.text !== b.text || a.isLiteral !== b.isLiteral) {
      if (a.isLiteral || b.isLiteral || !isSameMeaning(a.text, b.text)) return isReordered(left, right)
      meanings += 1
    }
    if (a.isCapital !== b.isCapital && left.usesCapitals && right.usesCapitals) return 'name'
    if (a.hasArticle !== b.hasArticle && (a.isCapital || b.isCapital)) return 'name'
    if (a.relation !== '' && b.relation !== '' && a.relation !== b.relation) return 'relation'
  }
  // One word for another is accepted only where the question is put in another way too.
  return meanings === 1 && left.opening === right.opening ? 'one_word' : null
}

const isSameMeaning = (left: string, right: string): boolean => {
  const meaning = MEANING_OF.get(left)
  return meaning !== undefined && meaning === MEANING_OF.get(right)
}

const isReordered = (left: ReadText, right: ReadText): UnlikeReason => {
  const sorted = ({ items }: ReadText): string => JSON.stringify(items.map(({ text }) => text).sort())
  return sorted(left) === sorted(right) ? 'order' : 'content'
}

const differences = (left: ReadText, right: ReadText): number =>
  left.words.filter((word, i) => word !== right.words[i]).length

/** Texts that are the same but for one word with a meaning. Another ending of the word changes nothing. */
const isSameButOneWord = (left: ReadText, right: ReadText): boolean => {
  if (left.words.length !== right.words.length || differences(left, right) !== 1) return false
  const at = left.words.findIndex((word, i) => word !== right.words[i])
  const [a, b] = [left.words[at]!, right.words[at]!]
  return isContent(a) && isContent(b) && stemmed(a) !== stemmed(b) && !isOpening(left, right, at)
}

const isContent = (word: string): boolean => !EMPTY_WORDS.has(word) && !RELATIONS.has(word)

/** The word stands in the phrase with which both begin. */
const isOpening = (left: ReadText, right: ReadText, at: number): boolean =>
  [left, right].every(({ words }) => at < (openingOf(words, 0)?.length ?? 0))

const stemmed = (word: string): string => {
  const same = SAME_WORDS.get(word) ?? word
  return same === word ? stemOf(word) : same
}

/** `In Python, how do I ...` as `how do I ... in Python`. */
const openingFirst = (tokens: readonly Token[], words: readonly string[]): readonly Token[] => {
  if (!RELATIONS.has(words[0] ?? '')) return tokens
  for (let at = 1; at < Math.min(tokens.length, 6); at++) {
    const isBreak = tokens[at]!.afterBreak
    if (!isBreak && openingOf(words, at)?.kind !== 'how' && !QUESTION_WORDS.has(words[at]!)) continue
    return [...tokens.slice(at), ...tokens.slice(0, at)]
  }
  return tokens
}

/** What is left of a text without the phrases that name its kind. */
interface Stripped extends Pick<ReadText, 'kind' | 'opening'> {
  readonly rest: readonly Token[]
}

const withoutPhrases = (tokens: readonly Token[]): Stripped => {
  const words = tokens.map(({ kind, text }) => (kind === 'literal' ? '' : text))
  let kind: RequestKind = 'own'
  let start = 0
  let opening = ''
  for (let phrase = openingOf(words, start); phrase !== null; phrase = openingOf(words, start)) {
    if (start + phrase.length >= words.length) break
    if (phrase.kind !== null) {
      kind = phrase.kind
      opening += `${words.slice(start, start + phrase.length).join(' ')} `
    }
    start += phrase.length
    if (phrase.kind === 'how') break
  }
  let end = words.length
  for (let length = endingOf(words, end); length > 0 && end - length > start; length = endingOf(words, end))
    end -= length
  const first = words[start] ?? ''
  if (QUESTION_WORDS.has(first)) kind = 'own'
  else if (kind === 'own' && ASKING.has(first)) kind = 'yes_no'
  const meant = meaningFrame(words, start, end)
  if (meant !== null) return { kind: 'what', opening: 'mean', rest: tokens.slice(meant.start, meant.end) }
  return { kind, opening, rest: tokens.slice(start, end) }
}

/** `what does X mean`, with `what` passed over already. */
const meaningFrame = (words: readonly string[], start: number, end: number): { start: number; end: number } | null => {
  if (words[end - 1] !== 'mean' || end - start < 3) return null
  if (words[start] === 'does' || words[start] === 'do') return { start: start + 1, end: end - 1 }
  return null
}

const itemsOf = (tokens: readonly Token[]): Pick<ReadText, 'items' | 'auxiliaries'> => {
  const items: Item[] = []
  const auxiliaries: string[] = []
  let before = NOTHING_BEFORE
  let preposition = ''
  for (const [i, token] of tokens.entries()) {
    const { kind } = token
    const isAFew = AMOUNTS.has(token.text) && tokens[i - 1]?.text === 'a'
    const text = isAFew ? `a_${token.text}` : token.text
    const isNamed = kind === 'word' && token.isCapital
    if (kind === 'literal' || (token.isAcronym && isCommon(text))) {
      const literal = kind === 'literal' ? text : text.toUpperCase()
      items.push({ text: literal, isLiteral: true, isCapital: false, ...before })
    } else if (RELATIONS.has(text) && !isNamed) {
      // One that relates nothing belongs to its verb: to log in, to give in.
      if (preposition !== '') items.push(particle(preposition))
      preposition = text
      before = { relation: RELATIONS.get(text)!, hasArticle: false }
      continue
    } else if (EMPTY_WORDS.has(text) && !isNamed) {
      if (text === 'the') before = { ...before, hasArticle: true }
      continue
    } else if (AUXILIARIES.has(text) && !isNamed) {
      auxiliaries.push(text)
      continue
    } else items.push(...wordItems(text, isNamed, before))
    before = NOTHING_BEFORE
    preposition = ''
  }
  if (preposition !== '') items.push(particle(preposition))
  return { items, auxiliaries }
}

/** With an article they are another amount. */
const AMOUNTS: ReadonlySet<string> = new Set(['few', 'little'])

const particle = (text: string): Item => ({ text, isLiteral: false, isCapital: false, ...NOTHING_BEFORE })

const NOTHING_BEFORE: Pick<Item, 'relation' | 'hasArticle'> = { relation: '', hasArticle: false }

/** A word as what it stands for; the first item has what stood before the word. */
const wordItems = (text: string, isCapital: boolean, before: Pick<Item, 'relation' | 'hasArticle'>): readonly Item[] =>
  (SAME_WORDS.get(text) ?? text).split(' ').map((word, i) => {
    const isLiteral = /^\d/.test(word) || word === '%'
    return { text: isLiteral ? word : stemmed(word), isLiteral, isCapital, ...(i === 0 ? before : NOTHING_BEFORE) }
  })

/** In capitals it is another word: US, IT, WHO. */
const isCommon = (word: string): boolean =>
  EMPTY_WORDS.has(word) || RELATIONS.has(word) || QUESTION_WORDS.has(word) || AUXILIARIES.has(word)
