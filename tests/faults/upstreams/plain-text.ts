// R30: providers whose name does not resolve, whose certificate is not valid, who speak no TLS or redirect elsewhere:
// `bun tests/faults/upstreams/plain-text.ts [--rounds 5]`.
// Every byte on the wire is kept: neither key nor prompt nor path may be among them. A peer that fails to prove its
// identity gets no request, not even an encrypted one.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type GatewayProcess, startGateway } from '../../services/gateway.ts'
import { type RawConnection, startRawServer } from '../../services/raw-server.ts'
import { type RecordedWay, startRecordedWay } from '../brokers/recorded-way.ts'
import { conclude, type Figure, numberArgument } from '../control/figures.ts'
import { UNDISTURBED } from '../rig.ts'

const ROUNDS = numberArgument('rounds', 5)
const KEY = 'sk-canary-5f2a9c71d04b'
const PROMPT = 'canary-prompt-8831e0'
const CANARIES = [KEY, PROMPT, 'chat/completions', Buffer.from(PROMPT).toString('base64').slice(2, -4)]
const TOTAL_MS = 4_000

const fixture = (name: string) => readFileSync(join(import.meta.dir, '../../fixtures/tls', name), 'utf8')
const pair = (name: string) => ({ cert: fixture(`${name}.pem`), key: fixture(`${name}.key`) })
const ANSWER = JSON.stringify({
  ...{ id: 'x', object: 'chat.completion', created: 1, model: 'm' },
  choices: [{ index: 0, message: { role: 'assistant', content: 'hi' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
})
const FRAME = JSON.stringify({
  ...{ id: 'x', object: 'chat.completion.chunk', created: 1, model: 'm' },
  choices: [{ index: 0, delta: { role: 'assistant', content: 'hi' }, finish_reason: 'stop' }],
})
const answered = (connection: RawConnection) => {
  if (!connection.received.includes(PROMPT)) return
  const stream = connection.received.includes('"stream":true')
  const body = stream ? `data: ${FRAME}\n\ndata: [DONE]\n\n` : ANSWER
  const type = stream ? 'text/event-stream' : 'application/json'
  connection.write(`HTTP/1.1 200 OK\r\nContent-Type: ${type}\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
  connection.received = ''
}

interface Place {
  readonly what: string
  readonly url: string
  readonly way: RecordedWay | null
  /** What the server itself was sent, after decryption. */
  readonly got: () => string
  /** The statuses that its failure may have when no provider takes over; 200: the provider is the good one. */
  readonly statuses: readonly number[]
  /** In the error of it. */
  readonly says?: string
}

const stops: (() => void)[] = []
const tlsPlace = async (
  what: string,
  certificate: string | null,
  statuses: readonly number[],
  answer: (connection: RawConnection) => void = answered,
  says?: string,
): Promise<Place> => {
  let got = ''
  const server = startRawServer(
    (connection, text) => {
      got += text
      answer(connection)
    },
    certificate === null ? undefined : pair(certificate),
  )
  const way = await startRecordedWay(server.port)
  stops.push(way.stop, server.stop)
  return { what, url: `https://localhost:${way.port}/v1`, way, got: () => got, statuses, ...(says && { says }) }
}
const silentPlace = async (what: string, cut: boolean, statuses: readonly number[]): Promise<Place> => {
  const way = await startRecordedWay(null, cut)
  stops.push(way.stop)
  return { what, url: `https://localhost:${way.port}/v1`, way, got: () => '', statuses }
}
const nowhere = (what: string, url: string): Place => ({ what, url, way: null, got: () => '', statuses: [502] })

let plainGot = ''
const plain = startRawServer((_, text) => {
  plainGot += text
})
stops.push(plain.stop)
const redirect = (connection: RawConnection) => {
  if (connection.received.includes(PROMPT))
    connection.write(
      `HTTP/1.1 307 Temporary Redirect\r\n` +
        `Location: http://localhost:${plain.port}/v1/chat/completions\r\n` +
        `Content-Length: 0\r\n\r\n`,
    )
}
const NOT_SENT = '(tls)'
const good = await tlsPlace('a certificate that holds', 'localhost', [200])
const places: readonly Place[] = [
  good,
  await tlsPlace('an expired certificate', 'localhost-expired', [502], answered, NOT_SENT),
  await tlsPlace('a certificate of another name', 'elsewhere', [502], answered, NOT_SENT),
  await tlsPlace('a certificate of an authority that nobody trusts', 'upstream', [502], answered, NOT_SENT),
  await tlsPlace('no TLS spoken', null, [502], (connection) => connection.write(`HTTP/1.1 200 OK\r\n\r\n${ANSWER}`)),
  await silentPlace('a handshake that never ends', false, [504]),
  await silentPlace('a handshake that is reset', true, [502]),
  await tlsPlace('a redirect from TLS to plain HTTP', 'localhost', [502], redirect),
  nowhere('a name that does not resolve', 'https://no-such-name.invalid/v1'),
  nowhere('an address of IPv6 alone, where nobody is', 'https://[::1]:1/v1'),
]

const folder = mkdtempSync(join(tmpdir(), 'gatelog-plain-'))
const trusted = join(folder, 'trusted.pem')
writeFileSync(trusted, ['localhost', 'localhost-expired', 'elsewhere'].map((name) => fixture(`${name}.pem`)).join(''))

/** A provider for each place and round, so that no failure keeps another from being called. */
const nameOf = (place: number, round: number) => `place-${place}-${round}`
const models = places.flatMap((_, place) => Array.from({ length: ROUNDS }, (_, round) => nameOf(place, round)))
const ask = (gateway: GatewayProcess, model: string, stream: boolean, mayFallBack: boolean) =>
  gateway.request('/v1/chat/completions', {
    body: { model, messages: [{ role: 'user', content: PROMPT }], ...(stream ? { stream } : {}) },
    headers: mayFallBack ? {} : { 'X-Gateway-No-Fallback': 'true' },
    signal: AbortSignal.timeout(30_000),
  })

const gateway = startGateway({
  settings: {
    ...UNDISTURBED,
    bootstrap: {
      providers: [
        ...places.flatMap(({ url }, place) =>
          Array.from({ length: ROUNDS }, (_, round) => ({
            ...{ name: nameOf(place, round), kind: 'openai_compatible', base_url: url, api_key_env: 'PROVIDER_CANARY' },
            models: [{ name: nameOf(place, round), priority: 1 }],
          })),
        ),
        {
          ...{ name: 'good', kind: 'openai_compatible', base_url: good.url, api_key_env: 'PROVIDER_CANARY' },
          models: models.map((name) => ({ name, priority: 2 })),
        },
      ],
      policies: [
        {
          ...{ name: 'default', strategy: 'priority', retry: { attempts: 0 } },
          timeouts: { connect_ms: 700, first_token_ms: 1_500, stream_idle_ms: 700, total_ms: TOTAL_MS },
        },
      ],
    },
  },
  env: { PROVIDER_CANARY: KEY, NODE_EXTRA_CA_CERTS: trusted },
})
await gateway.until('serving', 60_000)
for (let seeded = 0; seeded < models.length; await Bun.sleep(50)) {
  const { data } = (await (await gateway.request('/v1/models')).json()) as { data: { id: string }[] }
  seeded = data.filter(({ id }) => models.includes(id)).length
}

const tryPlace = async (place: Place, index: number): Promise<Figure> => {
  const wrong: string[] = []
  let n = 0
  for (let round = 0; round < ROUNDS; round++)
    for (const stream of [false, true])
      for (const mayFallBack of [true, false]) {
        n++
        const answer = await ask(gateway, nameOf(index, round), stream, mayFallBack)
        const text = await answer.text()
        const statuses = mayFallBack ? [200] : place.statuses
        const says = !mayFallBack && place.says !== undefined && !text.includes(place.says)
        if (!statuses.includes(answer.status) || says) wrong.push(`${answer.status} ${text.slice(0, 120)}`)
      }
  const wire = place.way?.sent() ?? Buffer.alloc(0)
  const leaked = CANARIES.filter((canary) => wire.includes(canary)).length
  const isGood = place.statuses.includes(200)
  // A peer that could not prove its identity gets nothing at all.
  const told = place.says === undefined ? 0 : place.got().length
  const isReal = place.way === null || (wire.length > 0 && (!isGood || place.got().includes(PROMPT)))
  return {
    row: 'R30',
    what: place.what,
    figure:
      `right ${n - wrong.length} of ${n}${wrong.length === 0 ? '' : ` (${wrong[0]})`}; connections ` +
      `${place.way?.connections ?? 0}, bytes on the way ${wire.length.toLocaleString('en')}, ` +
      `of ${CANARIES.length} canaries in plain text ` +
      `${leaked}${place.says === undefined ? '' : `; bytes of a request that it could read ${told}`}`,
    n,
    good: wrong.length === 0 && leaked === 0 && told === 0 && isReal,
  }
}
const figures: Figure[] = []
for (const [index, place] of places.entries()) figures.push(await tryPlace(place, index))
await gateway.remove()
for (const stop of stops) stop()
rmSync(folder, { recursive: true, force: true })
conclude([
  ...figures,
  {
    row: 'R30',
    what: 'bytes that the plain server behind the redirect got',
    figure: `${plainGot.length}`,
    n: 4 * ROUNDS,
    good: plainGot === '',
  },
])
