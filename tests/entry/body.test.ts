import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { BODY_LIMIT_BYTES, JSON_NAMES_LIMIT, JSON_VALUES_LIMIT, readJsonBody } from '../../src/entry/body.ts'
import type { Inbound } from '../../src/lib/http-server/inbound.ts'
import { ServerRequest } from '../../src/lib/http-server/request.ts'
import { headEnd, RequestHead } from '../../src/lib/http-server/request-head.ts'
import { tooDeepAt } from '../../src/lib/json/json-bounds.ts'
import { GatewayError } from '../../src/wire/errors.ts'

const read = async (
  body: BodyInit | null,
  headers: Record<string, string> = { 'content-type': 'application/json' },
) => {
  try {
    return (await readJsonBody(new Request('http://gateway.test/', { method: 'POST', body, headers }))).body
  } catch (error) {
    if (error instanceof GatewayError) return error.status
    throw error
  }
}
const chunked = (...pieces: Uint8Array[]) =>
  new ReadableStream<Uint8Array>({
    start(controller) {
      for (const piece of pieces) controller.enqueue(piece)
      controller.close()
    },
  })

// docs/behaviour.md: "Limits"
describe('a body', () => {
  test('is read with and without a length, and in pieces that cut a character', async () => {
    const bytes = new TextEncoder().encode('{"a":"é"}')
    expect(await read('{"a":"é"}')).toEqual({ a: 'é' })
    expect(await read(chunked(bytes.slice(0, 7), bytes.slice(7)))).toEqual({ a: 'é' })
  })

  test('has a type that is JSON, or none', async () => {
    for (const type of [
      'application/json',
      'application/json; charset=utf-8',
      'Application/JSON;charset="UTF-8"',
      'application/vnd.x+json',
    ]) {
      expect(await read('{}', { 'content-type': type })).toEqual({})
    }
    for (const type of [
      'text/plain',
      'application/x-www-form-urlencoded',
      'application/json; charset=latin1',
      'multipart/form-data',
    ]) {
      expect(await read('{}', { 'content-type': type })).toBe(415)
    }
  })

  test('S27: is not compressed', async () => {
    for (const coding of ['gzip', 'GZIP', 'deflate', 'br', 'zstd', 'gzip, gzip', 'identity, gzip', 'x-gzip', '']) {
      const headers = { 'content-type': 'application/json', 'content-encoding': coding }
      expect([coding, await read(Bun.gzipSync('{}'), headers)]).toEqual([coding, 415])
      expect([coding, await read('{}', headers)]).toEqual([coding, 415])
    }
    for (const none of ['identity', 'Identity', 'IDENTITY', ' identity ']) {
      const plain = { 'content-type': 'application/json', 'content-encoding': none }
      expect([none, await read('{}', plain)]).toEqual([none, {}])
    }
    // Nobody unpacks what does not say what it is.
    expect(await read(Bun.gzipSync('{}'))).toBe(400)
  })

  test('is an object of valid JSON in valid UTF-8', async () => {
    for (const body of ['', 'null', '[]', '"x"', '{', '{"a":1}}', "{'a':1}"]) expect(await read(body)).toBe(400)
    expect(await read(new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]))).toBe(400)
    expect(await read(null)).toBe(400)
  })

  test('that is nested too deeply, or is no UTF-8, is refused with the name of the member', async () => {
    const deep = `${'['.repeat(70)}${']'.repeat(70)}`
    const bad = new Uint8Array([0xc3, 0x28])
    for (const [body, param] of [
      [`{"a":{"b":"]}"},"tools":${deep}}`, 'tools'],
      [` {"a":[1,{"x":2}],"the name":{"x":${deep}},"b":1}`, 'the name'],
      [deep, null],
      [Buffer.concat([Buffer.from('{"a":{"c":1},"b":["x","'), bad, Buffer.from('"]}')]), 'b'],
      [Buffer.concat([Buffer.from('{"a":1,"'), bad, Buffer.from('":2}')]), null],
    ] as const) {
      const sent = readJsonBody(new Request('http://gateway.test/', { method: 'POST', body }))
      const error = await sent.then(
        () => null,
        (failure: GatewayError) => failure,
      )
      expect([String(body), error?.status, error?.param ?? null]).toEqual([String(body), 400, param])
    }
  })

  test('S23: is at most 10 MiB, announced or not', async () => {
    const large = `{"a":"${'x'.repeat(BODY_LIMIT_BYTES)}"}`
    expect(await read(large)).toBe(413)
    expect(await read(chunked(new TextEncoder().encode(large)))).toBe(413)
    expect(await read(`{"a":"${'x'.repeat(BODY_LIMIT_BYTES - 8)}"}`)).toHaveProperty('a')
  })

  test('that does not come whole is 408 after its time, and ends the connection', async () => {
    const stalled = new ReadableStream<Uint8Array>({ start: (controller) => controller.enqueue(Buffer.from('{"a":')) })
    const request = new Request('http://gateway.test/', { method: 'POST', body: stalled })
    const refused = await readJsonBody(request, BODY_LIMIT_BYTES, false, 10).catch((error: GatewayError) => error)
    expect(refused).toMatchObject({ status: 408, code: 'invalid_request', headers: { connection: 'close' } })
  })

  test('S24: may hold `__proto__`, which changes nothing', async () => {
    const body = (await read('{"__proto__":{"model":"x"},"constructor":1}')) as Record<string, unknown>
    expect(body.model).toBeUndefined()
    expect(({} as Record<string, unknown>).model).toBeUndefined()
  })

  test('S23: is nested at most 64 levels; a deeper one is refused without being parsed', async () => {
    const nested = (depth: number) => `{"a":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}`
    expect(await read(nested(64))).toHaveProperty('a')
    expect(await read(nested(65))).toBe(400)
    expect(await read(`{"a":${'['.repeat(5_000_000)}`)).toBe(400)
  })

  test('S43: holds at most 20,000 different names of members, however often each stands', async () => {
    const named = (count: number) => `{${Array.from({ length: count }, (_, i) => `"k${i}":1`).join(',')}}`
    expect(await read(named(JSON_NAMES_LIMIT))).toHaveProperty('k0')
    const beganMs = performance.now()
    expect(await read(named(190_000))).toBe(400)
    expect(performance.now() - beganMs).toBeLessThan(400)
    const split = Array.from({ length: 19_000 }, (_, i) => `{"a${i}":1,"b${i}":[{"c":1}]}`).join(',')
    expect(await read(`{"list":[${split}]}`)).toBe(400)
    const same = Array.from({ length: 60_000 }, () => '{"role":"user","content":"a: b, \\"c\\": d"}').join(',')
    expect(await read(`{"messages":[${same}]}`)).toHaveProperty('messages')
  })

  test('S23: holds at most 200,000 values, wherever they stand; what stands in texts is none', async () => {
    const items = (count: number, item: string) => `{"a":[${`${item},`.repeat(count)}${item}]}`
    expect(await read(items(JSON_VALUES_LIMIT, '{}'))).toHaveProperty('a')
    for (const item of ['{}', '1', '[]', '"text, with a comma"'])
      expect(await read(items(JSON_VALUES_LIMIT + 1, item))).toBe(400)
    const members = Array.from({ length: JSON_VALUES_LIMIT + 2 }, (_, i) => `"k${i}":1`)
    expect(await read(`{${members.join(',')}}`)).toBe(400)
    expect(await read(`{"a":"${',\\",'.repeat(JSON_VALUES_LIMIT)}"}`)).toHaveProperty('a')
  })
})

test('depth is that of the parsed value, whatever the strings hold', () => {
  const depthOf = (value: unknown): number =>
    value === null || typeof value !== 'object' ? 0 : 1 + Math.max(0, ...Object.values(value).map(depthOf))
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 6 }), fc.nat(8), (value, limit) => {
      expect(tooDeepAt(JSON.stringify(value), limit) !== null).toBe(depthOf(value) > limit)
    }),
  )
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom('{', '[', '"', '\\', ']', '}') }), (text) => {
      expect(tooDeepAt(JSON.stringify({ text }), 1)).toBeNull()
    }),
  )
})

const headed = (length: number): ServerRequest => {
  const bytes = Buffer.from(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${length}\r\n\r\n`)
  return new ServerRequest(new RequestHead(bytes, headEnd(bytes, 0)), {
    readBody() {},
    pauseBody() {},
    resumeDeadlines() {},
  })
}

describe('a body that comes in pieces once it is waited for', () => {
  const inPieces = async (sent: Uint8Array, limit?: number) => {
    const request = headed(sent.length)
    const read = readJsonBody(request, limit).catch((thrown: GatewayError) => thrown)
    const middle = sent.length >> 1
    request.receive(Buffer.from(sent.subarray(0, middle)), 0)
    request.receive(Buffer.from(sent.subarray(middle)), 0)
    return await read
  }
  const bytes = (text: string) => new TextEncoder().encode(text)

  test('is read as it was sent, without its byte order mark', async () => {
    expect(await inPieces(bytes('{"a":"ééé"}'))).toEqual({ raw: '{"a":"ééé"}', body: { a: 'ééé' } })
    expect(await inPieces(bytes('{"a":"\ufffd"}'))).toMatchObject({ body: { a: '\ufffd' } })
    expect(await inPieces(bytes('\ufeff{"a":1}'))).toMatchObject({ body: { a: 1 } })
  })

  test('is refused with the member that is no UTF-8, and beyond the limit before anything of it is read', async () => {
    const broken = Uint8Array.from([...bytes('{"a":1,"text":"'), 0xff, ...bytes('"}')])
    expect(await inPieces(broken)).toMatchObject({ status: 400, message: 'the body is not valid UTF-8', param: 'text' })
    const request = headed(13)
    expect(await readJsonBody(request, 12).catch((thrown: GatewayError) => thrown)).toMatchObject({ status: 413 })
  })
})

describe('a body that is there already as text', () => {
  const inbound = (text: string): Inbound => {
    const request = headed(Buffer.byteLength(text))
    const sent = Buffer.from(`before${text}`)
    expect(request.receive(sent, 6)).toBe(sent.length)
    return request
  }

  test('is read as it was sent', async () => {
    expect(await readJsonBody(inbound('{"a":"é"}'))).toEqual({ raw: '{"a":"é"}', body: { a: 'é' } })
    expect((await readJsonBody(inbound('{"a":"\ufffd"}'))).body).toEqual({ a: '\ufffd' })
    expect((await readJsonBody(inbound('\ufeff{"a":1}'))).body).toEqual({ a: 1 })
  })

  test('is refused beyond the limit, by its bytes', async () => {
    const error = await readJsonBody(inbound('{"a":"éé"}'), 11).catch((thrown: GatewayError) => thrown)
    expect(error).toMatchObject({ status: 413 })
    expect((await readJsonBody(inbound('{"a":"éé"}'), 12)).body).toEqual({ a: 'éé' })
  })
})
