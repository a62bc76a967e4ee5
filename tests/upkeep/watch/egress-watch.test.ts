// A private upstream of a gateway that does not listen on loopback: error, log line and `/ready` name the setting.
import { expect, test } from 'bun:test'
import type { Exchange } from '../../../src/inference/request/exchange.ts'
import { failureOf } from '../../../src/inference/request/failure.ts'
import { createDialer, type DialFailure } from '../../../src/lib/http-client/http-client.ts'
import type { CatalogueEntry } from '../../../src/state/port.ts'
import { watchEgress } from '../../../src/upkeep/watch/egress-watch.ts'
import { silent } from '../../services/postgres.ts'

const LIMITS = { connectMs: 100, headersMs: 100, signal: new AbortController().signal }

test('it is reported once for each host, named by the error, and forgotten after ten minutes without a call', async () => {
  let now = 0
  const lines: unknown[] = []
  const watch = watchEgress({ ...silent, warn: (event, fields) => lines.push({ event, ...fields }) }, () => now)
  const dialer = createDialer({
    allowPrivate: false,
    onPrivate: watch.blocked,
    resolve: async (host) => [host === 'metadata.example' ? '169.254.169.254' : '10.0.0.7'],
  })
  const call = async (url: string) => {
    try {
      await dialer.dial({ method: 'GET', headers: {}, body: null, url }, LIMITS)
    } catch (error) {
      return error as DialFailure
    }
    throw new Error('it was called')
  }
  expect(watch.problem()).toBeNull()
  for (const url of ['http://127.0.0.1:9/v1', 'http://127.0.0.1:9/v1', 'http://ollama.example/v1']) {
    const failure = await call(url)
    const told = failureOf(failure, {} as Exchange, { provider: 'local' } as CatalogueEntry)
    expect(told).toMatchObject({ code: 'upstream_error', message: expect.stringContaining('egress.allow_private') })
  }
  await call('http://metadata.example/')
  const mend = 'set egress.allow_private'
  expect(lines).toMatchObject([
    { event: 'upstream_blocked', host: '127.0.0.1', mend },
    { event: 'upstream_blocked', host: 'ollama.example', mend },
  ])
  expect(watch.problem()).toBe('2 upstreams have private addresses and are not called: set egress.allow_private')
  now = 10 * 60_000 + 1
  expect(watch.problem()).toBeNull()
  dialer.close()
})

test('the hosts that are remembered are bounded', () => {
  const watch = watchEgress(silent, () => 0)
  for (let i = 0; i < 1_000; i++) watch.blocked(`host-${i}`)
  expect(watch.problem()).toStartWith('100 ')
})
