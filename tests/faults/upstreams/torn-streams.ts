// R24: a stream with CRLF and characters of four bytes, cut in two packets at every byte, and broken off (FIN, RST) at
// every byte: `bun tests/faults/upstreams/torn-streams.ts [every so many bytes]`.
// The first must be read as if it were whole. The second must never look whole to a client unless its finish reason had
// come.
import { eventually } from '../../services/eventually.ts'
import { startGateway } from '../../services/gateway.ts'
import { conclude, type Figure } from '../control/figures.ts'
import { type FaultRequest, startFaultServer } from '../matrix/fault-server.ts'
import { DONE, delta, FINISH, ROLE, SSE_TYPE, send, soon, TEXT, WORD } from '../matrix/row.ts'
import { UNDISTURBED } from '../rig.ts'

const EVERY = Number(process.argv[2] ?? 1)
const AT_ONCE = 16
const WORDS = [WORD, delta({ content: ' und 🎉' })]
const SAID = `${TEXT} und 🎉`

const crlf = (text: string): Buffer => Buffer.from(text.replaceAll('\n', '\r\n'))
const BYTES = crlf([ROLE, ': a comment\n\n', ...WORDS, FINISH, DONE].join(''))
/** The finish reason stands in what comes before here. */
const FINISHED_AT = BYTES.length - crlf(DONE).length - '\r\n\r\n'.length

type Way = 'cut in two packets' | 'broken off by FIN' | 'broken off by RST'
const WAYS: readonly Way[] = ['cut in two packets', 'broken off by FIN', 'broken off by RST']

const answer = async (request: FaultRequest): Promise<void> => {
  const torn = /"tear (\d) at (\d+)"/.exec(request.body)
  if (torn === null) return send(request, '{"data":[]}') // a request for the listing of models
  const [way, at] = torn.slice(1).map(Number) as [number, number]
  request.head200(SSE_TYPE)
  if (at > 0) request.chunk(BYTES.subarray(0, at))
  await soon(() => {
    if (WAYS[way] === 'broken off by FIN') return request.connection.end()
    if (WAYS[way] === 'broken off by RST') return request.connection.reset()
    request.chunk(BYTES.subarray(at))
    request.last()
  })
}

const server = startFaultServer(answer)
const gateway = startGateway({
  settings: {
    ...UNDISTURBED,
    bootstrap: {
      providers: [
        {
          name: 'torn',
          kind: 'openai_compatible',
          base_url: `http://127.0.0.1:${server.port}/v1`,
          models: [{ name: 'torn' }],
        },
      ],
      policies: [{ name: 'default', retry: { attempts: 0 } }],
    },
  },
})
await gateway.until('serving', 60_000)
await eventually('the model is seeded', async () =>
  (await (await gateway.request('/v1/models')).text()).includes('"torn"'),
)

interface Seen {
  readonly said: string
  /** `[DONE]`, and no error before it. */
  readonly isWhole: boolean
  readonly isTold: boolean
}

const ask = async (way: number, at: number): Promise<Seen> => {
  const messages = [{ role: 'user', content: `tear ${way} at ${at}` }]
  const response = await gateway.request('/v1/chat/completions', { body: { model: 'torn', stream: true, messages } })
  const text = await response.text()
  const frames = text.split('\n\n').filter((frame) => frame.startsWith('data: {'))
  const said = frames
    .map((frame) => JSON.parse(frame.split('\n', 1)[0]!.slice(6)) as { choices?: { delta?: { content?: string } }[] })
    .map(({ choices }) => choices?.[0]?.delta?.content ?? '')
    .join('')
  const isBroken = text.includes('event: error')
  const isEnded = text.endsWith('data: [DONE]\n\n')
  return {
    said,
    isWhole: response.status === 200 && isEnded && !isBroken,
    isTold: response.status === 200 ? isEnded && isBroken : response.status === 502,
  }
}

const runWay = async (way: number): Promise<Figure> => {
  const places = Array.from({ length: Math.ceil((BYTES.length - 1) / EVERY) }, (_, i) => 1 + i * EVERY)
  const wrong: string[] = []
  const isTorn = way > 0
  let [misread, silent, whole, told] = [0, 0, 0, 0]
  const queue = [...places]
  const lane = async () => {
    for (let at = queue.shift(); at !== undefined; at = queue.shift()) {
      const seen = await ask(way, at)
      if (seen.isWhole) whole++
      if (seen.isTold) told++
      const isSilent = seen.isWhole && isTorn && at < FINISHED_AT
      const isMisread = isTorn
        ? !SAID.startsWith(seen.said) || (!seen.isWhole && !seen.isTold)
        : !seen.isWhole || seen.said !== SAID
      if (isSilent) silent++
      if (isMisread) misread++
      if (isSilent || isMisread) wrong.push(`at ${at}: ${JSON.stringify(seen)}`)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, lane))
  for (const line of wrong.slice(0, 3)) console.error(`WRONG: ${WAYS[way]} ${line}`)
  return {
    row: 'R24',
    what: `a stream of ${BYTES.length} bytes with CRLF, ${WAYS[way]} at every ${EVERY === 1 ? '' : `${EVERY}. `}byte`,
    figure: `misread ${misread} of ${places.length}, silently truncated ${silent}; whole ${whole}, told ${told}`,
    n: places.length,
    good: misread + silent === 0 && (isTorn ? told > 0 : whole === places.length),
  }
}

const figures: Figure[] = []
for (const way of WAYS.keys()) figures.push(await runWay(way))
await gateway.remove()
server.stop()
conclude(figures)
