// S16: whether the time of a refused login tells an existing name from an unknown one: `bun
// tests/security/login-timing.ts [--names 25]`.
// Four tries each, fewer than lock a name out, each name from a separate address, both kinds in turn. Prints the
// difference of the medians, and how often chance alone makes it as large.
import { numberArgument } from '../faults/control/figures.ts'
import { eventually } from '../services/eventually.ts'
import { startGateway } from '../services/gateway.ts'

const NAMES = numberArgument('names', 25)
const TRIES = 4
const SHUFFLES = 10_000
/** Beyond this chance is no likely reason. */
const SIGNIFICANT = 0.01

const gateway = startGateway({
  settings: {
    worker: { enabled: false },
    server: { max_event_loop_delay: 'off', trusted_proxies: ['127.0.0.0/8'] },
  },
})
await gateway.until('serving', 60_000)
const LINK = /\/setup\?token=[0-9a-f]{64}/
const link = await eventually('the link of the set-up is printed', () => LINK.exec(gateway.output())?.[0] ?? null)
const password = 'correct horse battery staple'
const post = (path: string, body: unknown, address: string) =>
  gateway.request(`/admin/v1/auth${path}`, { body, key: null, headers: { 'x-forwarded-for': address } })
const made = await post(link, { username: 'name-0', password, confirm: password }, '203.0.113.1')
if (made.status !== 201) throw new Error(`set-up: ${made.status} ${await made.text()}`)
for (let name = 1; name < NAMES; name++) {
  const answer = await gateway.request('/admin/v1/operators', { body: { username: `name-${name}`, password } })
  if (!answer.ok) throw new Error(`operator: ${answer.status} ${await answer.text()}`)
}

let addresses = 0
const tookMs = async (username: string): Promise<number> => {
  const address = `198.18.${addresses >> 8}.${addresses++ & 255}`
  const startedMs = performance.now()
  const answer = await post('/login', { username, password: 'wrong horse battery staple' }, address)
  await answer.arrayBuffer()
  const ms = performance.now() - startedMs
  if (answer.status !== 401) throw new Error(`${username}: ${answer.status}`)
  return ms
}
const known: number[] = []
const unknown: number[] = []
for (let round = 0; round < TRIES; round++)
  for (let name = 0; name < NAMES; name++) {
    const kinds = [
      async () => known.push(await tookMs(`name-${name}`)),
      async () => unknown.push(await tookMs(`none-${name}`)),
    ]
    for (const kind of (round + name) % 2 === 0 ? kinds : kinds.toReversed()) await kind()
  }
await gateway.remove()

const median = (values: readonly number[]): number => {
  const sorted = [...values].sort((a, b) => a - b)
  const half = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[half]! : (sorted[half - 1]! + sorted[half]!) / 2
}
const apart = (one: readonly number[], other: readonly number[]): number => Math.abs(median(one) - median(other))
const difference = apart(known, unknown)
const all = [...known, ...unknown]
let asLarge = 0
for (let shuffle = 0; shuffle < SHUFFLES; shuffle++) {
  for (let at = all.length - 1; at > 0; at--) {
    const other = Math.floor(Math.random() * (at + 1))
    ;[all[at], all[other]] = [all[other]!, all[at]!]
  }
  if (apart(all.slice(0, known.length), all.slice(known.length)) >= difference) asLarge++
}
const p = (asLarge + 1) / (SHUFFLES + 1)
const ms = (value: number): string => value.toFixed(2)
console.log(
  `S16: medians ${ms(median(known))} ms (known, N ${known.length}) and ${ms(median(unknown))} ms ` +
    `(unknown, N ${unknown.length}): ${ms(difference)} ms apart, p ${p.toFixed(3)}`,
)
process.exit(p < SIGNIFICANT ? 1 : 0)
