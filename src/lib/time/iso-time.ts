// Times as `Date.toISOString` writes them, to Unix milliseconds and back without an object each, for values that are
// packed and read millions of times. Years 1970 to 9999.

const DAY_MS = 86_400_000
const CHARACTERS = 24
const ZERO = 0x30
const DAYS_OF_MONTH = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] as const
/** Days from 1 March of the year 0 to 1970. Counting from March makes a leap day the last day of its year. */
const DAYS_TO_EPOCH = 719_468
const DAYS_OF_400_YEARS = 146_097
const MOST_MS = 253_402_300_800_000

// Shared by all calls of `isoText`, each of which sets every digit, or finds the day's digits set.
const scratch = Buffer.from('0000-00-00T00:00:00.000Z')

/** The number that two digits stand for; NaN when one is no digit. */
const twoAt = (text: string, at: number): number => {
  const high = text.charCodeAt(at) - ZERO
  const low = text.charCodeAt(at + 1) - ZERO
  return high >= 0 && high <= 9 && low >= 0 && low <= 9 ? high * 10 + low : Number.NaN
}

const isPunctuated = (text: string): boolean =>
  text[4] === '-' &&
  text[7] === '-' &&
  text[10] === 'T' &&
  text[13] === ':' &&
  text[16] === ':' &&
  text[19] === '.' &&
  text[23] === 'Z'

const isLeap = (year: number): boolean => year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)

/** Whether the calendar has this day (`YYYY-MM-DD`): the platform reads 2026-02-30 as 2 March. */
export const isDay = (date: string): boolean => {
  const ms = Date.parse(`${date}T00:00:00Z`)
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(date)
}

/** Unix milliseconds of a time in exactly this form; NaN for any other text. */
export const isoMs = (text: string): number => {
  if (text.length !== CHARACTERS || !isPunctuated(text)) return Number.NaN
  const year = twoAt(text, 0) * 100 + twoAt(text, 2)
  const month = twoAt(text, 5)
  const day = twoAt(text, 8)
  const last = month === 2 && isLeap(year) ? 29 : (DAYS_OF_MONTH[month - 1] ?? 0)
  if (!(year >= 1970 && day >= 1 && day <= last)) return Number.NaN
  const hour = twoAt(text, 11)
  const minute = twoAt(text, 14)
  const second = twoAt(text, 17)
  if (!(hour < 24 && minute < 60 && second < 60)) return Number.NaN
  const thousandths = twoAt(text, 20) * 10 + (text.charCodeAt(22) - ZERO)
  if (!(twoAt(text, 21) >= 0)) return Number.NaN
  return daysTo(year, month, day) * DAY_MS + ((hour * 60 + minute) * 60 + second) * 1_000 + thousandths
}

const daysTo = (year: number, month: number, day: number): number => {
  const counted = month > 2 ? year : year - 1
  const era = Math.floor(counted / 400)
  const ofEra = counted - era * 400
  const ofYear = Math.floor((153 * (month > 2 ? month - 3 : month + 9) + 2) / 5) + day - 1
  return (
    era * DAYS_OF_400_YEARS + ofEra * 365 + Math.floor(ofEra / 4) - Math.floor(ofEra / 100) + ofYear - DAYS_TO_EPOCH
  )
}

const putTwo = (at: number, value: number): void => {
  scratch[at] = ZERO + Math.floor(value / 10)
  scratch[at + 1] = ZERO + (value % 10)
}

// Mutable: the day whose digits are in `scratch`; `isoText` is synchronous, so no caller finds another one.
let putDay = -1

/**
 * The digits of a day stay in the scratch until another day is written: times that are read together mostly share a
 * day.
 */
const putDate = (days: number): void => {
  if (days === putDay) return
  putDay = days
  const counted = days + DAYS_TO_EPOCH
  const era = Math.floor(counted / DAYS_OF_400_YEARS)
  const dayOfEra = counted - era * DAYS_OF_400_YEARS
  const yearOfEra = Math.floor(
    (dayOfEra - Math.floor(dayOfEra / 1_460) + Math.floor(dayOfEra / 36_524) - Math.floor(dayOfEra / 146_096)) / 365,
  )
  const dayOfYear = dayOfEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100))
  const shifted = Math.floor((5 * dayOfYear + 2) / 153)
  const month = shifted < 10 ? shifted + 3 : shifted - 9
  const year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
  putTwo(0, Math.floor(year / 100))
  putTwo(2, year % 100)
  putTwo(5, month)
  putTwo(8, dayOfYear - Math.floor((153 * shifted + 2) / 5) + 1)
}

/** The text of a time; the platform's form before 1970 and after 9999. */
export const isoText = (atMs: number): string => {
  if (!(atMs >= 0 && atMs < MOST_MS)) return new Date(atMs).toISOString()
  const days = Math.floor(atMs / DAY_MS)
  putDate(days)
  let rest = atMs - days * DAY_MS
  const thousandths = rest % 1_000
  rest = (rest - thousandths) / 1_000
  putTwo(11, Math.floor(rest / 3_600))
  putTwo(14, Math.floor(rest / 60) % 60)
  putTwo(17, rest % 60)
  putTwo(20, Math.floor(thousandths / 10))
  scratch[22] = ZERO + (thousandths % 10)
  return scratch.toString('latin1')
}
