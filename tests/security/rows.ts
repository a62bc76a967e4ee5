// The security list: the attack, the required behaviour, and whether it holds. The tests of a row are those whose title
// begins with its number.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

export interface SecurityRow {
  readonly number: number
  /** The attack. */
  readonly attack: string
  readonly promise: string
  /** Why the row cannot be passed: the part that it is about does not exist. Its tests hold that it does not. */
  readonly absent?: string
}

const row = (number: number, attack: string, promise: string, absent?: string): SecurityRow => ({
  number,
  attack,
  promise,
  ...(absent === undefined ? {} : { absent }),
})

export const SECURITY_ROWS: readonly SecurityRow[] = [
  row(
    1,
    'An upstream address inside: metadata, loopback, private, in any spelling',
    'Read once by the WHATWG parser, resolved, every address checked; metadata ' +
      'never, private only with `egress.allow_private`',
  ),
  row(
    2,
    'A name that resolves elsewhere after the check',
    'The connection goes to the address that was checked; TLS is checked against the name',
  ),
  row(3, 'A redirect of an upstream', 'Never followed; it is an upstream error'),
  row(4, 'A call that forgets the rules', 'One dialer; no other file can call out'),
  row(5, 'Addresses and keys in a client’s body', 'They never route: sent on as they came'),
  row(6, 'Addresses in messages', 'Never fetched'),
  row(
    7,
    '`api_key_env` that names another variable',
    'Only usual ones of kinds, `PROVIDER_*` and listed ones, never ours',
  ),
  row(
    8,
    'Any route with another scope or another tenant’s ids',
    '401, 403 and 404 exactly, for each route x credential x tenant',
  ),
  row(9, 'A key that grants more than it has', 'Refused: scopes, tenants, policies, time'),
  row(
    10,
    'Keys alike, revoked, expired, or in a flood',
    'Looked up by the whole SHA-256 at each request; no memory of refusals',
  ),
  row(11, 'Two credentials, an ambiguous one, or two hosts', '401; for two hosts 400'),
  row(12, 'Another spelling of a path', 'Authorised and served as one and the same path'),
  row(13, 'SQL, labels and keys in any filter, name or header', 'Parameters only; labels from closed sets'),
  row(
    14,
    'Another site’s page with an operator’s cookie',
    '`Origin`, `Sec-Fetch-Site` and JSON are asked of every write',
  ),
  row(
    15,
    'A session that is fixed, old, or of a changed password',
    'New at each login, ended by the server; 12 h at most, 2 h idle',
  ),
  row(
    16,
    'Guessing names and passwords; a flood of hashes',
    'Locked out before a hash; two hashes at once; unknown names cost and look the same',
  ),
  row(
    17,
    'Set-up by a stranger, or by two at once',
    'Elsewhere than on this machine it takes the token of the start; one wins; closed for ever after',
  ),
  row(
    18,
    'Secrets and prompts anywhere they should not be',
    'Found in no log, topic, table, metric, trace, line or answer',
  ),
  row(19, 'A provider’s error that quotes our key', 'Cut out before envelope and log'),
  row(20, 'Frames within what a provider says', 'One event, one line; the frames are those that were meant'),
  row(21, 'Header lines within what a client says', '`[A-Za-z0-9._-]`, at most 128; no line break passes'),
  row(22, 'A second request hidden in the first', 'Refused and the connection closed'),
  row(23, 'JSON without end', 'Depth 64, 10 MiB and 200,000 values, before it is parsed'),
  row(24, '`__proto__`, and names that stand twice', 'No prototype changes; what is authorised is what is sent'),
  row(25, 'Numbers beyond 2^53', 'Forwarded with their own bytes'),
  row(26, 'Patterns and schemas that never end', 'RE2, bounded work, bounded compile cache'),
  row(27, 'Compressed bodies and bombs', '415 from clients; cut at the decoded bound from upstreams'),
  row(
    28,
    'Another tenant’s cached answer',
    'Never shared between tenants',
    'there is no response cache; the test holds that nothing is answered from one',
  ),
  row(29, 'A poisoned cache', 'Only complete answers, authenticated', 'there is no response cache'),
  row(30, 'Headers that cannot be meant', '400 that names them; another tenant’s policy is 404'),
  row(
    31,
    'A changed or shortened audit',
    'Each decision names its parent and has a MAC; before, after, actor, with secrets masked',
  ),
  row(32, 'Sealed secrets under another row or key', 'Fail closed; a rotation wraps all anew'),
  row(
    33,
    'Tools that loop, or claim an identity',
    'Bounded; output never authorises',
    'the gateway runs no tools; the tests hold that',
  ),
  row(
    34,
    'Administration through a tunnel',
    'Not served there',
    'there are no tunnels; the test holds that no route makes one',
  ),
  row(35, 'Markup in stored text', 'Shown as text', 'there is no console; the page of the API document is held to it'),
  row(
    36,
    'A poisoned dependency',
    'Few, exact, frozen, nothing runs at install, a bill of materials, nothing calls home',
  ),
  row(37, 'A log that grows by what is sent', 'Each field and each record has a bound'),
  row(
    38,
    'Another account of the machine in the place of Postgres',
    'A socket in a folder that only our account enters; the password is given by SCRAM alone; no superuser',
  ),
  row(
    39,
    'A page whose name is rebound to the gateway, or that posts to it',
    '403 on the admin surface for any other `Host`; set-up from elsewhere takes the token of the start; no CORS there',
  ),
  row(
    40,
    'A provider whose address is changed to get its secret',
    'A secret belongs to the kind and origin that it was given for, on every way to write or call a provider',
  ),
  row(
    41,
    'A tenant’s key that writes what holds for all',
    '403 for each such write without the tenant `default` or `*`',
  ),
  row(
    42,
    'Memory that fills with what clients have compiled',
    'The cache of schemas weighs their patterns, holds 32 MB, and is emptied before load is refused',
  ),
  row(
    43,
    'JSON, names or comments without end, of a client or a provider',
    'Depth, values and different names are bounded before anything is parsed; what expands without measure is cut',
  ),
  row(
    44,
    'An upstream that sends an answer before the request, or more than one',
    'Not a byte counts but the answer’s; the connection is closed',
  ),
  row(
    45,
    'Doors left ajar: files of the data folder, types that browsers guess, cells that run, clients cut off',
    '0600 and 0700; `nosniff`; a quote before every formula; a client that ends its side gets its answer',
  ),
]

export interface NamedTest {
  readonly number: number
  readonly file: string
  readonly title: string
}

const ROOT = join(import.meta.dir, '../..')
const TITLE = /(['"`])(S(\d+): (?:(?!\1).)+)\1/g

/** Every test whose title begins with the number of a row, in order of files. */
export const namedTests = (): readonly NamedTest[] =>
  [...new Bun.Glob('tests/**/*.test.ts').scanSync({ cwd: ROOT })].sort().flatMap((file) =>
    [...readFileSync(join(ROOT, file), 'utf8').matchAll(TITLE)].map(([, , title, number]) => ({
      number: Number(number),
      file,
      title: title!.slice(title!.indexOf(' ') + 1),
    })),
  )

/** The table of `docs/security.md`. */
export const securityTable = (): string => {
  const tests = namedTests()
  const cell = (text: string) => text.replaceAll('|', '\\|')
  const lines = SECURITY_ROWS.map(({ number, attack, promise, absent }) => {
    const own = tests.filter((each) => each.number === number)
    const files = [...new Set(own.map(({ file }) => file))]
    const shown = files.map((file) => {
      const titles = own.filter((each) => each.file === file).map(({ title }) => `“${title}”`)
      return `[${file.slice('tests/'.length)}](../${file}): ${titles.join('; ')}`
    })
    const state = absent === undefined ? 'holds' : `absent: ${absent}`
    return `| S${number} | ${cell(attack)} | ${cell(promise)} | ${cell(shown.join('<br>'))} | ${cell(state)} |`
  })
  return ['| Row | What is tried | What happens | Tests | State |', '|---|---|---|---|---|', ...lines].join('\n')
}
