// Values of `format` that a pattern without repeated alternatives can check. Each check reads a text once.

const MOST_CHARS = 2_048

const DATE = /^(\d{4})-(\d\d)-(\d\d)$/
/** The forms of RFC 3339; the offset may be absent, as common libraries write local times. */
const TIME = /^([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(?:\.\d+)?(?:[zZ]|[+-](?:[01]\d|2[0-3]):[0-5]\d)?$/
const DURATION = /^P(?!$)(?:\d+W|(?:\d+Y)?(?:\d+M)?(?:\d+D)?(?:T(?!$)(?:\d+H)?(?:\d+M)?(?:\d+S)?)?)$/
const UUID = /^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/i
const LABEL = /^[a-z\d](?:[a-z\d-]{0,61}[a-z\d])?$/i
const BYTE = /^(?:0|[1-9]\d?|1\d\d|2[0-4]\d|25[0-5])$/
const GROUP = /^[\da-f]{1,4}$/i
const LOCAL_PART = /^[\w.!#$%&'*+/=?^`{|}~-]{1,64}$/
const ABSOLUTE = /^[a-z][a-z\d+.-]*:[^\s<>"{}|\\^`]*$/i
const BROKEN_ESCAPE = /%(?![\da-f]{2})/i

const isDate = (text: string): boolean => {
  const [, year, month, day] = DATE.exec(text) ?? []
  if (year === undefined) return false
  const days = new Date(Date.UTC(2_000 + (Number(year) % 400), Number(month), 0)).getUTCDate()
  return Number(month) >= 1 && Number(month) <= 12 && Number(day) >= 1 && Number(day) <= days
}

const isDateTime = (text: string): boolean =>
  /^[tT ]$/.test(text.charAt(10)) && isDate(text.slice(0, 10)) && TIME.test(text.slice(11))

const isHostname = (text: string): boolean => text.length <= 253 && text.split('.').every((label) => LABEL.test(label))

const isIpv4 = (text: string): boolean => {
  const bytes = text.split('.')
  return bytes.length === 4 && bytes.every((byte) => BYTE.test(byte))
}

const isIpv6 = (text: string): boolean => {
  const halves = text.split('::')
  if (halves.length > 2) return false
  let groups = 0
  for (const [place, half] of halves.entries()) {
    if (half === '') continue
    const parts = half.split(':')
    const last = parts[parts.length - 1]!
    const isEnd = place === halves.length - 1
    if (isEnd && last.includes('.')) {
      if (!isIpv4(last)) return false
      parts.pop()
      groups += 2
    }
    if (!parts.every((part) => GROUP.test(part))) return false
    groups += parts.length
  }
  return halves.length === 2 ? groups < 8 : groups === 8 && halves[0] !== ''
}

const isEmail = (text: string): boolean => {
  const at = text.lastIndexOf('@')
  const local = text.slice(0, Math.max(0, at))
  if (!LOCAL_PART.test(local) || local.startsWith('.') || local.endsWith('.') || local.includes('..')) return false
  return isHostname(text.slice(at + 1))
}

const isUri = (text: string): boolean => ABSOLUTE.test(text) && !BROKEN_ESCAPE.test(text)

const FORMATS: ReadonlyMap<string, (text: string) => boolean> = new Map([
  ['date', isDate],
  ['time', (text) => TIME.test(text)],
  ['date-time', isDateTime],
  ['duration', (text) => DURATION.test(text)],
  ['uuid', (text) => UUID.test(text)],
  ['hostname', isHostname],
  ['ipv4', isIpv4],
  ['ipv6', isIpv6],
  ['email', isEmail],
  ['uri', isUri],
])

/**
 * The check of a format; undefined for an unsupported one, which has no effect. A text beyond MOST_CHARS has no format.
 */
export const formatCheck = (name: string): ((text: string) => boolean) | undefined => {
  const check = FORMATS.get(name)
  return check === undefined ? undefined : (text) => text.length <= MOST_CHARS && check(text)
}
