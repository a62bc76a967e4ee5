// The body of a request that arrives in pieces: whole, as text where that is beyond doubt, and nobody else's.
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { ServerRequest } from '../../../src/lib/http-server/request.ts'
import { RequestHead } from '../../../src/lib/http-server/request-head.ts'

/** Bodies up to this size are put together in shared memory. */
const MOST_JOINED_BYTES = 1024 * 1024
const uplink = { readBody: () => {}, pauseBody: () => {}, resumeDeadlines: () => {} }

const requestFor = (length: number): ServerRequest => {
  const head = Buffer.from(`POST / HTTP/1.1\r\nhost: a\r\ncontent-length: ${length}\r\n\r\n`)
  return new ServerRequest(new RequestHead(head, head.length - 4), uplink)
}

/** Its reads, each in memory of its own and behind something that is not of the body. */
const piecesOf = (bytes: Uint8Array, cuts: readonly number[]): { readonly read: Buffer; readonly from: number }[] => {
  const ends = [...cuts.map((cut) => cut % Math.max(1, bytes.length)), bytes.length].sort((a, b) => a - b)
  return ends.map((end, i) => {
    const from = i % 3
    const piece = bytes.subarray(i === 0 ? 0 : ends[i - 1]!, end)
    return { read: Buffer.concat([Buffer.alloc(from, 33), piece]), from }
  })
}

const BOM = Uint8Array.of(0xef, 0xbb, 0xbf)
const encoder = new TextEncoder()
const body: fc.Arbitrary<Uint8Array> = fc.oneof(
  fc.string({ unit: 'grapheme', minLength: 1, maxLength: 200 }).map((text) => encoder.encode(text)),
  fc.string({ minLength: 1, maxLength: 20 }).map((text) => encoder.encode(text.repeat(3_000))),
  fc.uint8Array({ minLength: 1, maxLength: 50 }),
  fc.string({ maxLength: 20 }).map((text) => Uint8Array.from([...BOM, ...encoder.encode(text)])),
)
const cuts = fc.array(fc.nat({ max: 60_000 }), { maxLength: 5 })

/** What it is to be: text where a strict reader finds it and nothing is left out of it. */
const expected = (bytes: Uint8Array): string | Uint8Array => {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
    return text.startsWith('\ufeff') || text.includes('\ufffd') ? bytes : text
  } catch {
    return bytes
  }
}

const same = (got: string | Uint8Array, wanted: string | Uint8Array): boolean =>
  typeof got === 'string' || typeof wanted === 'string' ? got === wanted : Buffer.compare(got, wanted) === 0

test('bodies that arrive beside each other in pieces are each whole, as text where that is beyond doubt', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.record({ body, cuts }), { minLength: 1, maxLength: 4 }), async (sent) => {
      const requests = sent.map(({ body }) => requestFor(body.length))
      const answers = requests.map((request) => request.textOrBytes())
      const pieces = sent.map(({ body, cuts }) => piecesOf(body, cuts))
      for (let i = 0; pieces.some((all) => i < all.length); i++)
        for (const [of, all] of pieces.entries()) {
          const piece = all[i]
          if (piece !== undefined) requests[of]!.receive(piece.read, piece.from)
        }
      // All have arrived before the first of them is looked at.
      const got = await Promise.all(answers)
      for (const [of, { body }] of sent.entries()) expect(same(got[of]!, expected(body))).toBe(true)
    }),
    { numRuns: 300 },
  )
})

test('so are those as large as what is put together in shared memory, and larger ones', async () => {
  for (const filled of ['a', 'é', '€'])
    for (const count of [MOST_JOINED_BYTES - 1, MOST_JOINED_BYTES, MOST_JOINED_BYTES + 1]) {
      const bytes = encoder.encode(filled.repeat(count))
      const request = requestFor(bytes.length)
      const answer = request.textOrBytes()
      for (const { read, from } of piecesOf(bytes, [70_000, 600_001])) request.receive(read, from)
      expect((await answer) === filled.repeat(count)).toBe(true)
    }
})

test('a client that leaves in the middle of its body is told to whoever waits for the text', async () => {
  const request = requestFor(10)
  const answer = request.textOrBytes()
  request.receive(Buffer.from('half'), 0)
  request.abort()
  await expect(answer).rejects.toThrow('the client left')
  await expect(request.textOrBytes()).rejects.toThrow('the client left')
})
