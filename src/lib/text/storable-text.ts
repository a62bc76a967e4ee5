// Which texts can be stored, displayed and sent.

/** Whether a JSON log and a database keep a text unchanged: it has no NUL character and no lone surrogate. */
export const isStorable = (text: string): boolean => !text.includes('\u0000') && text.isWellFormed()

/**
 * What a name must not contain, since it could look like another one: control characters, line ends, marks that turn
 * the direction of text, and invisible characters (Unicode's Default_Ignorable_Code_Point, among them fillers, joiners,
 * selectors and tags; the blank of Braille, the null note, anchors).
 */
const UNREADABLE = /[\p{Cc}\p{Zl}\p{Zp}\p{DI}\u2800\uFFF9-\uFFFB\u{1D159}]/u
/** Within an emoji that Unicode recommends (RGI), selectors, joiners and tags are legitimate: 👩‍💻, ❤️. */
const EMOJI = /\p{RGI_Emoji}/gv
/** A name with a blank of another width or kind looks like the one with the ordinary blank. */
const ODD_BLANK = /[\p{Zs}--\u0020]/v
/** Arabic letters that join no letter behind them. A zero-width non-joiner there is invisible. */
const UNJOINED = [
  '\\u0621-\\u0625\\u0627\\u0629\\u062F-\\u0632\\u0648\\u0671-\\u0677\\u0688-\\u0699\\u06C0',
  '\\u06C3-\\u06CB\\u06CD\\u06CF\\u06D2\\u06D3\\u06D5\\u06EE\\u06EF',
].join('')
/**
 * Scripts whose consonants join by a sign, and that sign: a joiner beside it is visible, and ordinary spelling needs it
 * (ශ්‍රී, র‍্যা).
 */
const JOINING_SIGNS: Readonly<Record<string, string>> = {
  Devanagari: '\\u094D',
  Bengali: '\\u09CD',
  Gurmukhi: '\\u0A4D',
  Gujarati: '\\u0ACD',
  Oriya: '\\u0B4D',
  Tamil: '\\u0BCD',
  Telugu: '\\u0C4D',
  Kannada: '\\u0CCD',
  Malayalam: '\\u0D4D',
  Sinhala: '\\u0DCA',
}
const joinersBeside = ([script, sign]: readonly [string, string]): string => {
  const letter = `[\\p{sc=${script}}&&\\p{L}]`
  const behind = `(?<=\\p{sc=${script}}${sign})(?:\\u200C(?=${letter})|\\u200D(?![\\p{M}\\u200C\\u200D]))`
  return `${behind}|(?<=${letter})\\u200D(?=${sign}${letter})`
}
/**
 * Zero-width joiners and non-joiners that are visible: between Arabic letters that would join (می‌خواهم), and beside
 * those signs.
 */
const SEEN_JOINERS = new RegExp(
  [
    `(?<=[[\\p{scx=Arab}&&\\p{L}]--[${UNJOINED}]]\\p{M}*)\\u200C(?=[\\p{scx=Arab}&&\\p{L}])`,
    ...Object.entries(JOINING_SIGNS).map(joinersBeside),
  ].join('|'),
  'gv',
)
const NOTHING_TO_SEE = /^[\s\p{Cf}]+$/u

/** Whether a text has characters, but no visible one: blanks, and marks without a width. */
const isBlank = (text: string): boolean => NOTHING_TO_SEE.test(text)

/** Whether a name can be read in lists, terminals and reports, and told apart from others. */
const isReadable = (name: string): boolean =>
  !UNREADABLE.test(name) || !UNREADABLE.test(name.replace(SEEN_JOINERS, '').replace(EMOJI, ''))

/** Which rule a name breaks, or null. */
export const nameError = (name: string): string | null => {
  if (isBlank(name)) return 'must not consist of blanks'
  if (ODD_BLANK.test(name)) return 'must not hold other blanks than the ordinary one (U+0020)'
  if (isReadable(name)) return null
  return 'must not hold control characters, nor such as show nothing or turn the direction of text'
}

/** A secret that a header can carry, as a JSON Schema pattern: printable ASCII, not only blanks. */
export const SECRET_PATTERN = '^ *[!-~][ -~]*$'
const SECRET = new RegExp(SECRET_PATTERN)

/** Whether a header can carry a secret. */
export const isSendable = (secret: string): boolean => SECRET.test(secret)
