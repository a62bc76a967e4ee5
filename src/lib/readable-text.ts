// Which texts can be stored, read and sent.

/** Whether a log of JSON and a database keep a text unchanged: one without NUL characters and halves of surrogate pairs. */
export const isStorable = (text: string): boolean => !text.includes('\u0000') && text.isWellFormed()

/**
 * What a name may not hold, since it could show as another one: control characters, line ends, marks that turn the direction of text, and characters that
 * show nothing (Unicode's Default_Ignorable_Code_Point, among them fillers, joiners, selectors and tags; the blank of Braille, the null note, anchors).
 */
const UNREADABLE = /[\p{Cc}\p{Zl}\p{Zp}\p{DI}\u2800\uFFF9-\uFFFB\u{1D159}]/u
/** Within an emoji that Unicode recommends (RGI) selectors, joiners and tags have their use: 👩‍💻, ❤️. */
const EMOJI = /\p{RGI_Emoji}/gv
const NOTHING_TO_SEE = /^[\s\p{Cf}]+$/u

/** Whether a text has characters, but none that anybody sees: blanks, and marks without a width. */
const isBlank = (text: string): boolean => NOTHING_TO_SEE.test(text)

/** Whether a name is one that people can read in lists, terminals and reports, and tell from others. */
const isReadable = (name: string): boolean => !UNREADABLE.test(name) || !UNREADABLE.test(name.replace(EMOJI, ''))

/** What a name must not do, or null. */
export const nameFlaw = (name: string): string | null => {
  if (isBlank(name)) return 'must not consist of blanks'
  if (isReadable(name)) return null
  return 'must not hold control characters, nor such as show nothing or turn the direction of text'
}

/** What a secret must be that goes in a header, as a JSON Schema pattern: printable ASCII, not only blanks. */
export const SECRET_PATTERN = '^ *[!-~][ -~]*$'
const SECRET = new RegExp(SECRET_PATTERN)

/** Whether a header can carry a secret. */
export const isSendable = (secret: string): boolean => SECRET.test(secret)
