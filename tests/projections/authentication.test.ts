// What a server may ask for before the driver goes on: a listener in the place of Postgres gets no password.
import { afterEach, expect, test } from 'bun:test'
import { openDatabase } from '../../projections/database.ts'

const PASSWORD = 'the-password-itself'
const SSL_REQUEST = 80_877_103
const MD5_REQUEST = authentication(5, Buffer.from([1, 2, 3, 4]))
const CLEARTEXT_REQUEST = authentication(3)
const AUTHENTICATED = authentication(0)
const READY = Buffer.from([90, 0, 0, 0, 5, 73])
const SCRAM_ONLY = 'require_auth=scram-sha-256'

function authentication(type: number, more: Buffer = Buffer.alloc(0)): Buffer {
  const message = Buffer.alloc(9)
  message[0] = 82
  message.writeUInt32BE(8 + more.length, 1)
  message.writeUInt32BE(type, 5)
  return Buffer.concat([message, more])
}

const sasl = (...mechanisms: string[]) => authentication(10, Buffer.from(`${mechanisms.join('\0')}\0\0`))

/** Answers each message of a client in turn; `{nonce}` is the client's. */
const listener = (answers: readonly (Buffer | string)[]) => {
  const got: Buffer[] = []
  let nonce = ''
  const server = Bun.listen<undefined>({
    hostname: '127.0.0.1',
    port: 0,
    socket: {
      data(socket, bytes) {
        const message = Buffer.from(bytes)
        if (message.length === 8 && message.readUInt32BE(4) === SSL_REQUEST) return void socket.write('N')
        got.push(message)
        nonce = /r=([^,]+)/.exec(message.toString('latin1'))?.[1] ?? nonce
        const answer = answers[got.length - 1]
        if (answer === undefined) return
        socket.write(
          typeof answer === 'string' ? authentication(11, Buffer.from(answer.replace('{nonce}', nonce))) : answer,
        )
      },
    },
  })
  stops.push(() => server.stop(true))
  return {
    url: (query: string) => `postgres://gateway:${PASSWORD}@127.0.0.1:${server.port}/postgres?${query}`,
    text: () => Buffer.concat(got).toString('latin1'),
    get messages() {
      return got.length
    },
  }
}

const stops: (() => void)[] = []
afterEach(() => {
  for (const stop of stops.splice(0)) stop()
})

const ask = async (url: string) => {
  const sql = openDatabase({ url, name: 'gatelog-test', maxConnections: 1, statementTimeoutMs: null })
  return await sql`select 1`.finally(() => sql.end({ timeout: 0 }))
}

const salted = (iterations: number) => `r={nonce}server,s=${Buffer.from('salt').toString('base64')},i=${iterations}`

/** After the name of role and database: how many messages of the client may follow. */
const REFUSED: readonly [what: string, query: string, answers: readonly (Buffer | string)[], follow: number][] = [
  ['cleartext', SCRAM_ONLY, [CLEARTEXT_REQUEST], 0],
  ['MD5', SCRAM_ONLY, [MD5_REQUEST], 0],
  ['nothing', SCRAM_ONLY, [Buffer.concat([AUTHENTICATED, READY])], 0],
  ['nothing, without a word about it', SCRAM_ONLY, [READY], 0],
  ['Kerberos', SCRAM_ONLY, [authentication(7)], 0],
  ['a token', SCRAM_ONLY, [sasl('OAUTHBEARER')], 0],
  ['SCRAM, and answers it with nothing', SCRAM_ONLY, [sasl('SCRAM-SHA-256'), AUTHENTICATED], 1],
  ['SCRAM without end', SCRAM_ONLY, [sasl('SCRAM-SHA-256'), salted(2_000_000_000)], 1],
  ['SCRAM with the nonce of another', SCRAM_ONLY, [sasl('SCRAM-SHA-256'), 'r=other,s=c2FsdA==,i=4096'], 1],
  [
    'SCRAM, and knows no password itself',
    SCRAM_ONLY,
    [
      sasl('SCRAM-SHA-256'),
      salted(4096),
      Buffer.concat([authentication(12, Buffer.from('v=AAAA')), AUTHENTICATED, READY]),
    ],
    2,
  ],
  ['SCRAM, then cleartext', SCRAM_ONLY, [sasl('SCRAM-SHA-256'), CLEARTEXT_REQUEST], 1],
  ['cleartext without TLS, of a client that may take any', '', [CLEARTEXT_REQUEST], 0],
  ['cleartext where TLS was stripped', 'sslmode=prefer', [CLEARTEXT_REQUEST], 0],
]

test.each(REFUSED)('S38: a listener that asks for %s gets no password', async (_, query, answers, follow) => {
  const server = listener(answers)
  await expect(ask(server.url(query))).rejects.toMatchObject({
    code: expect.stringMatching(/^(AUTH_REFUSED|SASL_SIGNATURE_MISMATCH)$/),
  })
  expect(server.messages).toBe(1 + follow)
  expect(server.text()).not.toContain(PASSWORD)
})

test('TLS that is required and not offered is an error that says so; nothing is sent without it', async () => {
  const server = listener([])
  await expect(ask(server.url('sslmode=require'))).rejects.toMatchObject({ code: 'TLS_REFUSED' })
  expect(server.messages).toBe(0)
})
