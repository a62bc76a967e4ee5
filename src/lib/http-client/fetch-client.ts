// HTTP through Bun's `fetch`. The fallback of `pool.ts`: it cannot tell connecting from waiting, so the headers' deadline covers both.
import type { CancelSignal } from '../event-loop/cancellation.ts'
import { DialFailure, type DialFailureKind, type DialResponse } from './dial.ts'
import type { HttpClient } from './pool.ts'
import { mapErrors, readText } from './stream-text.ts'

const CONNECT = new Set([
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ConnectionRefused',
  'FailedToOpenSocket',
  'EADDRNOTAVAIL',
])
const TLS = /^(EPROTO|ERR_TLS|ERR_SSL|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO|UNKNOWN_CERT|HOSTNAME_MISMATCH)/

const kindOfCode = (code: string): DialFailureKind => {
  if (CONNECT.has(code)) return 'connect'
  if (code === 'ENOTFOUND') return 'dns'
  return TLS.test(code) ? 'tls' : 'reset'
}

const failureOf = (error: unknown, signal: CancelSignal): DialFailure => {
  if (error instanceof DialFailure) return error
  if (signal.aborted) return new DialFailure('canceled', 'the request was canceled')
  const code = String((error as { code?: unknown }).code ?? '')
  return new DialFailure(
    kindOfCode(code),
    code === '' ? 'the connection failed' : `the connection failed (${code})`,
    error,
  )
}

export const fetchClient = (ca?: string): HttpClient => ({
  async send({ secure, address, port, host, serverName, path }, request, limits): Promise<DialResponse> {
    const controller = new AbortController()
    const abort = () => controller.abort()
    let late = false
    const timer = setTimeout(() => {
      late = true
      controller.abort()
    }, limits.headersMs)
    limits.signal.addEventListener('abort', abort)
    const url = `${secure ? 'https' : 'http'}://${address.includes(':') ? `[${address}]` : address}:${port}${path}`
    let response: Response
    try {
      response = await fetch(url, {
        method: request.method,
        headers: { 'accept-encoding': 'identity', ...request.headers, host },
        body: request.body,
        redirect: 'manual',
        signal: controller.signal,
        ...(secure
          ? { tls: { ...(serverName === null ? {} : { serverName }), ...(ca === undefined ? {} : { ca }) } }
          : {}),
      })
    } catch (error) {
      limits.signal.removeEventListener('abort', abort)
      if (late) throw new DialFailure('timeout_headers', `no response headers within ${limits.headersMs} ms`)
      throw failureOf(error, limits.signal)
    } finally {
      clearTimeout(timer)
    }
    const body = response.body === null ? null : mapErrors(response.body, (error) => failureOf(error, limits.signal))
    return { status: response.status, headers: response.headers, body, text: (maxBytes) => readText(body, maxBytes) }
  },
  close: () => {}, // Bun owns the connections
})
