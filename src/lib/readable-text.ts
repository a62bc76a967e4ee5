// Which texts can be stored, read and sent.

/** Whether a log of JSON and a database keep a text unchanged: one without NUL characters and halves of surrogate pairs. */
export const isStorable = (text: string): boolean => !text.includes('\u0000') && text.isWellFormed()

const UNREADABLE = /[\p{Cc}\p{Zl}\p{Zp}]/u

/** Whether a name is one that people can read in lists, terminals and reports: without control characters and line ends. */
export const isReadable = (name: string): boolean => !UNREADABLE.test(name)

/** What a secret must be that goes in a header, as a JSON Schema pattern: printable ASCII, not only blanks. */
export const SECRET_PATTERN = '^ *[!-~][ -~]*$'
const SECRET = new RegExp(SECRET_PATTERN)

/** Whether a header can carry a secret. */
export const isSendable = (secret: string): boolean => SECRET.test(secret)
