// A text as the tokens that the guard compares.

/** `literal`: quoted text, code, an address, a number or a name that has to be equal to the letter. */
export interface Token {
  readonly kind: 'word' | 'literal'
  /** A word in lower case, a literal as it is written. */
  readonly text: string
  /** Written with a capital within a sentence. */
  readonly isCapital: boolean
  /** Written in capitals only. */
  readonly isAcronym: boolean
  /** A comma, or a sentence, ends before it. */
  readonly afterBreak: boolean
}

const INVISIBLE = /[\u200b-\u200d\u2060\ufeff\u00ad]/g
const FENCE = /```[\s\S]*?(?:```|$)/
const INLINE_CODE = /`[^`]+`/
const QUOTED = /"[^"]*"|(?<![\p{L}\p{N}])'[^']*'(?![\p{L}\p{N}])|«[^»]*»/u
const ADDRESS = /[a-z][a-z0-9+.-]*:\/\/[^\s"'<>]+|www\.[^\s"'<>]+|[\w.+-]+@[\w-]+\.[\w.-]+/
/** With its sign, its currency, and a mark of feet or inches behind it. */
const NUMBER = /(?:(?<![\p{L}\p{N}])[-+−])?[$€£]?\.?\d+(?:[.,:/-]\d+)*(?:['"′″](?!\p{L}))?/u
/** A word of letters, with an apostrophe or hyphens within. */
const WORD = /\p{L}[\p{L}\p{M}]*(?:['-]\p{L}[\p{L}\p{M}]*)*/u
/** What remains: signs. Punctuation of sentences has no meaning of its own. */
const SIGN = /[^\s\p{L}\p{N}]/u
/** Letters with signs of code behind or between them. */
const SIGNED_WORD = /\p{L}+(?:[\d_/\\.=<>{}()[\]#+*&|^~@]+\p{L}*)+/u
const SCANNER = new RegExp(
  [FENCE, INLINE_CODE, QUOTED, ADDRESS, SIGNED_WORD, NUMBER, WORD, SIGN].map(({ source }) => `(${source})`).join('|'),
  'giu',
)
const PUNCTUATION = /^[.,;:!?…\-–—"'()]$/
/** Signs within a word that make it a name of code: `a.b`, `foo()`, `C++`, `snake_case`. */
const CODE_WORD = /[\d_/\\=<>{}[\]#+*&|^~@]|\.\p{L}|\(\)/u

const CONTRACTIONS: readonly (readonly [RegExp, string])[] = [
  [/\b(can)'t\b/gi, '$1 not'],
  [/\bwon't\b/gi, 'will not'],
  [/\bcannot\b/gi, 'can not'],
  [/n't\b/gi, ' not'],
  [/\b(i)'m\b/gi, '$1 am'],
  [/\blet's\b/gi, 'let us'],
  [/\b(what|who|where|when|why|how|it|that|there|he|she)'s\b/gi, '$1 is'],
  [/\bwhats\b/gi, 'what is'],
  [/\b(\w+)'re\b/gi, '$1 are'],
  [/\b(\w+)'ve\b/gi, '$1 have'],
  [/\b(\w+)'ll\b/gi, '$1 will'],
  [/\b(\w+)'d\b/gi, '$1 would'],
]

/** Equal for texts that look alike. */
const plain = (text: string): string => {
  let out = text.normalize('NFKC').replace(INVISIBLE, '').replace(/[‘’]/g, "'").replace(/[“”„]/g, '"')
  if (!/["`]/.test(out)) for (const [pattern, full] of CONTRACTIONS) out = out.replace(pattern, full)
  return out
}

/** Longer texts are not compared. */
export const MOST_TEXT_CHARS = 2_000

/** The tokens of a text; null for one that is too long, or that holds letters of another script than Latin. */
export const tokensOf = (text: string): readonly Token[] | null => {
  if (text.length > MOST_TEXT_CHARS) return null
  const source = plain(text)
  if (/[^\P{L}\p{Script=Latin}]/u.test(source)) return null
  const tokens: Token[] = []
  let startsSentence = true
  let afterBreak = false
  for (const match of source.matchAll(SCANNER)) {
    const [token, fence, code, quoted, address, codeWord, number, word] = match
    if (word === undefined && codeWord === undefined && number === undefined && PUNCTUATION.test(token)) {
      afterBreak = true
      startsSentence = /[.!?]/.test(token)
      continue
    }
    const first = token[0]!
    const isCapital = !startsSentence && first !== first.toLowerCase() && token !== 'I'
    const at = { isCapital, isAcronym: false, afterBreak }
    if (word !== undefined || (codeWord !== undefined && !CODE_WORD.test(codeWord)))
      tokens.push(...wordTokens(trimmed(token), at))
    else if (number !== undefined) tokens.push({ kind: 'literal', text: number.replace(/,(?=\d{3}\b)/g, ''), ...at })
    else {
      // Code and quotations are literal with what is around them; other signs as they stand.
      const exact = fence ?? code ?? quoted ?? address ?? token
      tokens.push({ kind: 'literal', text: exact.trim(), ...at })
    }
    startsSentence = quoted === undefined && /[.!?]$/.test(token)
    afterBreak = false
  }
  return tokens
}

const trimmed = (word: string): string => word.replace(/[^\p{L}]+$/u, '')

/** A possessive is its word; a word with hyphens its parts. */
const wordTokens = (token: string, at: Pick<Token, 'isCapital' | 'afterBreak'>): Token[] =>
  token
    .replace(/'s$/i, '')
    .split('-')
    .filter((part) => part !== '')
    .map((part, i) => {
      const isAcronym = part.length > 1 && part === part.toUpperCase()
      const isCapital = at.isCapital || isAcronym
      return { kind: 'word', text: part.toLowerCase(), isCapital, isAcronym, afterBreak: i === 0 && at.afterBreak }
    })
