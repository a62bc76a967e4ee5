// Raw servers and dialers for tests, closed after each of them.
import { readFileSync } from 'node:fs'
import { DialFailure, type DialLimits, type DialRequest } from '../../../src/lib/http-client/dial.ts'
import { createDialer, type DialerDeps } from '../../../src/lib/http-client/dialer.ts'
import { type RawConnection, type RawServer, startRawServer } from '../../services/raw-server.ts'

const fixture = (name: string) => readFileSync(`${import.meta.dir}/../../fixtures/tls/${name}`, 'utf8')
export const ca = fixture('ca.pem')
export const pair = (name: string) => ({ cert: fixture(`${name}.pem`), key: fixture(`${name}.key`) })

export const closing: (() => void)[] = []
/** Ends all servers and dialers of a test: its file calls it after each. */
export const closeAll = (): void => {
  for (const close of closing.splice(0)) close()
}

export const serve = (
  answer: (connection: RawConnection, text: string) => void,
  tls?: { cert: string; key: string },
): RawServer => {
  const server = startRawServer(answer, tls)
  closing.push(() => server.stop())
  return server
}
export const dialer = (deps: Partial<DialerDeps> = {}) => {
  const made = createDialer({ allowPrivate: true, ...deps })
  closing.push(() => made.close())
  return made
}
export const post = (url: string, body = '{"a":1}'): DialRequest => ({
  method: 'POST',
  url,
  headers: { 'content-type': 'application/json' },
  body,
})
export const limits = (more: Partial<DialLimits> = {}): DialLimits => ({
  signal: new AbortController().signal,
  connectMs: 5_000,
  headersMs: 5_000,
  ...more,
})
/** The kind of DialFailure that the work ends with. */
export const kindOf = async (work: Promise<unknown>): Promise<string> => {
  const error = await work.then(
    () => 'no failure',
    (thrown) => thrown,
  )
  return error instanceof DialFailure ? error.kind : String(error)
}
export const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
