import { expect, test } from 'bun:test'
import { nameError } from '../../../src/lib/text/storable-text.ts'

const [NON_JOINER, JOINER] = ['\u200c', '\u200d']

test.each([
  ['Persian', `می${NON_JOINER}خواهم`],
  ['Persian, behind a mark of a vowel', `بِ${NON_JOINER}ب`],
  ['Urdu', `خوش${NON_JOINER}حال`],
  ['Sinhala', `ශ්${JOINER}රී`],
  ['Bengali, the joiner first', `র${JOINER}্যাব`],
  ['Marathi', `दर्${JOINER}या`],
  ['Hindi', `राज्${NON_JOINER}कुमार`],
  ['Kannada', `ರಾಜ್${NON_JOINER}ಕುಮಾರ್`],
  ['Malayalam, at the end', `അവന്${JOINER}`],
  ['emoji', 'Team 👩‍💻 ❤️'],
  ['both', `می${NON_JOINER}خواهم 👩‍💻`],
  ['Latin with blanks', 'Acme and sons'],
])('a name in %s is taken', (_, name) => {
  expect(nameError(name)).toBeNull()
})

test.each([
  ['Latin', `ac${NON_JOINER}me`],
  ['Latin', `ac${JOINER}me`],
  ['Arabic that joins anyway', `می${JOINER}خ`],
  ['Arabic behind a letter that joins none', `کار${NON_JOINER}ها`],
  ['Arabic at an end', `می${NON_JOINER}`],
  ['Arabic, twice', `می${NON_JOINER}${NON_JOINER}خ`],
  ['Arabic before Latin', `می${NON_JOINER}a`],
  ['Arabic behind an emoji', `ب👩‍💻${NON_JOINER}ب`],
  ['Devanagari without the sign', `रा${NON_JOINER}ज`],
  ['Devanagari, twice', `ज्${JOINER}${JOINER}क`],
  ['Devanagari, both', `ज्${JOINER}${NON_JOINER}क`],
  ['Devanagari before another script', `ज्${NON_JOINER}a`],
  ['a sign of another script', `a\u094d${JOINER}`],
])('joiners that show nothing are refused: %s, %j', (_, name) => {
  expect(nameError(name)).toMatch(/^must not hold control characters/)
})

test.each([...'\u00a0\u1680\u2000\u2002\u2003\u2009\u200a\u202f\u205f\u3000'])('the blank %j is refused', (blank) => {
  expect(nameError(`acme${blank}x`)).toBe('must not hold other blanks than the ordinary one (U+0020)')
  expect(nameError(blank)).toBe('must not consist of blanks')
})
