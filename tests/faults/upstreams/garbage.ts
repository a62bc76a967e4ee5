// R25 and R26: what an upstream may send instead of an answer, without end where possible: `bun
// tests/faults/upstreams/garbage.ts [times]`.
// The gateway answers `upstream_error` and survives. Prints how much it read, its memory, the delay of the event loop,
// and the decoded size of compressed answers.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createGzip } from 'node:zlib'
import { eventually } from '../../services/eventually.ts'
import { startGateway } from '../../services/gateway.ts'
import { conclude, type Figure } from '../control/figures.ts'
import { type FaultAnswer, type FaultRequest, startFaultServer } from '../matrix/fault-server.ts'
import { ANSWER, JSON_TYPE, MB, open, ROLE, SSE_TYPE, send, WORD } from '../matrix/row.ts'
import { UNDISTURBED } from '../rig.ts'
import { strainText, watchStrain } from '../watch.ts'

const TIMES = Number(process.argv[2] ?? 20)
const AT_ONCE = 2
const GB = 1024 * MB
/**
 * The bound of a kept answer, as bytes and as text, for each request in flight, and what the runtime adds before it
 * collects garbage.
 */
const MOST_GROWTH_MB = AT_ONCE * 2 * 64 + 200
/** An answer is read to 64 MB; decoding runs ahead of reading by a piece. */
const MOST_DECODED = 72 * MB
const MOST_STILL_MS = 1_000

interface Garbage {
  readonly row: 'R25' | 'R26'
  readonly name: string
  readonly wires: readonly ('json' | 'stream')[]
  readonly answer: FaultAnswer
  /** A stream that has begun ends with an error frame. */
  readonly after?: true
}

let sent = 0
/** Sends the same piece until so much is sent or the receiver takes no more. */
const pour = async ({ connection, ...request }: FaultRequest, piece: Uint8Array, bytes: number): Promise<void> => {
  for (let poured = 0; poured < bytes && !connection.gone; poured += piece.length) {
    request.chunk(piece)
    await connection.drained()
    if (!connection.gone) sent += piece.length
  }
}
const filled = (byte: string): Uint8Array => Buffer.alloc(MB / 4, byte)
const HTML = '<!doctype html><html><body>Please sign in</body></html>'

/** 1 GB when it is decoded, made once: about a thousandth of that as it travels. */
const bombOf = async (head: string): Promise<Uint8Array> => {
  const gzip = createGzip({ level: 9 })
  const whole = new Response(gzip as unknown as ReadableStream).bytes()
  gzip.write(head)
  for (let bytes = 0; bytes < GB; bytes += MB)
    if (!gzip.write(Buffer.alloc(MB, ' '))) await new Promise((resolve) => gzip.once('drain', resolve))
  gzip.end()
  return whole
}
const BOMBS = { json: await bombOf('{"id":"'), stream: await bombOf(`${ROLE}data: `) }

const KINDS: readonly Garbage[] = [
  {
    row: 'R25',
    name: 'HTML with 200',
    wires: ['json', 'stream'],
    answer: (request) => send(request, HTML, '200 OK', 'Content-Type: text/html\r\n'),
  },
  {
    row: 'R25',
    name: 'a picture instead of an answer',
    wires: ['json', 'stream'],
    answer: (request) => send(request, filled('\u0089'), '200 OK', 'Content-Type: image/png\r\n'),
  },
  {
    row: 'R25',
    name: 'lines that are no JSON',
    wires: ['json', 'stream'],
    answer(request) {
      if (!request.stream) return send(request, ANSWER.slice(0, -2))
      open(request, ...Array.from({ length: 200 }, () => 'data: {"choices": [\n\n'))
      request.last()
    },
  },
  {
    row: 'R25',
    name: '1 GB without a line end',
    wires: ['json', 'stream'],
    async answer(request) {
      if (request.stream) open(request, ROLE, 'data: ')
      else request.head200(JSON_TYPE)
      await pour(request, filled(request.stream ? 'x' : ' '), GB)
    },
  },
  {
    row: 'R25',
    name: '1 GB without a line end after its first word',
    wires: ['stream'],
    after: true,
    async answer(request) {
      open(request, ROLE, WORD, 'data: ')
      await pour(request, filled('x'), GB)
    },
  },
  {
    row: 'R25',
    name: 'frames without content, without an end',
    wires: ['stream'],
    async answer(request) {
      open(request)
      await pour(request, Buffer.from(ROLE.repeat(200)), Number.POSITIVE_INFINITY)
    },
  },
  {
    row: 'R25',
    name: '10,000 headers',
    wires: ['json', 'stream'],
    answer: ({ connection }) => connection.write(`HTTP/1.1 200 OK\r\n${'X: y\r\n'.repeat(10_000)}\r\n`),
  },
  {
    row: 'R25',
    name: 'a header without an end',
    wires: ['json', 'stream'],
    async answer({ connection }) {
      connection.write('HTTP/1.1 200 OK\r\nX-Long: ')
      for (; !connection.gone; sent += MB / 4) {
        connection.write(filled('h'))
        await connection.drained()
      }
    },
  },
  {
    row: 'R26',
    name: 'a gzip bomb of 1 GB',
    wires: ['json', 'stream'],
    answer(request) {
      const type = request.stream ? SSE_TYPE : JSON_TYPE
      send(request, BOMBS[request.stream ? 'stream' : 'json'], '200 OK', `${type}Content-Encoding: gzip\r\n`)
    },
  },
]

const folder = mkdtempSync(join(tmpdir(), 'gatelog-garbage-'))
const decodedPath = join(folder, 'decoded')
writeFileSync(decodedPath, '0')
const servers = KINDS.map(({ answer }) => startFaultServer(answer))
const gateway = startGateway({
  preload: [join(import.meta.dir, '../preloads/decoded-bytes.ts')],
  env: { FAULT_DECODED: decodedPath },
  settings: {
    ...UNDISTURBED,
    bootstrap: {
      providers: KINDS.map((_, i) => ({
        name: `garbage-${i}`,
        kind: 'openai_compatible',
        base_url: `http://127.0.0.1:${servers[i]!.port}/v1`,
        models: [{ name: `garbage-${i}` }],
      })),
      policies: [
        {
          name: 'default',
          retry: { attempts: 0 },
          // None is left alone: each request has to meet it.
          breaker: { failure_threshold: 10_000, failure_rate_pct: 100, minimum_requests: 100_000 },
        },
      ],
    },
  },
})
await gateway.until('serving', 60_000)
await eventually('the registry is seeded', async () =>
  (await (await gateway.request('/v1/models')).text()).includes(`"garbage-${KINDS.length - 1}"`),
)
const { pid } = gateway

/** Null when the failure was reported correctly; otherwise what came. */
const wrongOf = async (kind: number, stream: boolean): Promise<string | null> => {
  const body = { model: `garbage-${kind}`, messages: [{ role: 'user', content: 'Anything?' }], stream }
  const answer = await gateway.request('/v1/chat/completions', { body, signal: AbortSignal.timeout(60_000) })
  const text = await answer.text()
  const isBroken = KINDS[kind]!.after === true
  const isTold = isBroken ? text.includes('event: error') && text.endsWith('data: [DONE]\n\n') : answer.status === 502
  return isTold && text.includes('"code":"upstream_error"') ? null : `${answer.status} ${text.slice(-200)}`
}

const runKind = async (kind: number, wire: 'json' | 'stream'): Promise<Figure> => {
  const { row, name } = KINDS[kind]!
  writeFileSync(decodedPath, '0')
  sent = 0
  const strain = watchStrain(gateway)
  const wrong: string[] = []
  let next = 0
  const lanes = Array.from({ length: AT_ONCE }, async () => {
    while (next++ < TIMES) {
      const what = await wrongOf(kind, wire === 'stream')
      if (what !== null) wrong.push(what)
    }
  })
  await Promise.all(lanes)
  const seen = await strain.stop()
  for (const what of wrong.slice(0, 2)) console.error(`WRONG: ${name}, ${wire}: ${what}`)
  const decoded = Number(readFileSync(decodedPath, 'utf8'))
  const isAlive = gateway.pid === pid && (await gateway.request('/health')).ok
  const grewMb = seen.rssPeakMb - seen.rssBeforeMb
  const took = sent === 0 ? '' : `; sent before it was cut ${(sent / TIMES / MB).toFixed(1)} MB in the mean`
  const cut = row === 'R26' ? `; decoded at the cut ${(decoded / MB).toFixed(1)} MB at most` : ''
  return {
    row,
    what: `${name}, ${wire === 'json' ? 'JSON' : 'stream'}, ${AT_ONCE} at once`,
    figure:
      `told \`upstream_error\` ${TIMES - wrong.length} of ${TIMES}${took}${cut}; ` +
      `${strainText(seen)}; alive ${isAlive ? 'yes' : 'no'}`,
    n: TIMES,
    good:
      wrong.length === 0 &&
      isAlive &&
      grewMb <= MOST_GROWTH_MB &&
      seen.pulseMs <= MOST_STILL_MS &&
      (row !== 'R26' || (decoded > 0 && decoded <= MOST_DECODED)),
  }
}

const figures: Figure[] = []
for (const [kind, { wires }] of KINDS.entries()) {
  for (const wire of wires) {
    const figure = await runKind(kind, wire)
    figures.push(figure)
    console.error(`${figure.what}: ${figure.figure}`)
  }
}
await gateway.remove()
for (const server of servers) server.stop()
rmSync(folder, { recursive: true, force: true })
conclude(figures)
