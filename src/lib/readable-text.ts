// Which texts can be stored, read and sent.

/** Whether a log of JSON and a database keep a text unchanged: one without NUL characters and halves of surrogate pairs. */
export const isStorable = (text: string): boolean => !text.includes('\u0000') && text.isWellFormed()

/** Control characters, line ends, and what turns the direction of the text that follows: a name could show as another one. */
const UNREADABLE = /[\p{Cc}\p{Zl}\p{Zp}\u202A-\u202E\u2066-\u2069]/u
const NOTHING_TO_SEE = /^[\s\p{Cf}]+$/u

/** Whether a text has characters, but none that anybody sees: blanks, and marks without a width. */
export const isBlank = (text: string): boolean => NOTHING_TO_SEE.test(text)

/** Whether a name is one that people can read in lists, terminals and reports: without control characters, line ends and turns of direction. */
export const isReadable = (name: string): boolean => !UNREADABLE.test(name)

/** What a secret must be that goes in a header, as a JSON Schema pattern: printable ASCII, not only blanks. */
export const SECRET_PATTERN = '^ *[!-~][ -~]*$'
const SECRET = new RegExp(SECRET_PATTERN)

/** Whether a header can carry a secret. */
export const isSendable = (secret: string): boolean => SECRET.test(secret)
