import { describe, expect, test } from 'bun:test'
import { PLAIN, readHeaderIntent } from '../../../src/inference/intent/headers.ts'

const read = (headers: Record<string, string>) => readHeaderIntent(new Headers(headers))

// docs/behaviour.md: "Steering headers"
describe('headers', () => {
  test.each(['X-Gateway-No-Fallback', 'X-Gateway-Batch', 'X-Gateway-No-Cache', 'X-Gateway-Debug'])(
    '%s takes true or false and nothing else',
    (header) => {
      expect(read({ [header]: 'false' })).toEqual(PLAIN)
      expect(Object.values(read({ [header]: 'true' })).filter((value) => value === true)).toHaveLength(1)
      for (const value of ['', 'TRUE', 'True', '1', 'yes', 'true,true', 'true; q=1', 'null'])
        expect(() => read({ [header]: value })).toThrow(expect.objectContaining({ status: 400, param: header }))
    },
  )

  test('are read once, all of them', () => {
    expect(
      read({
        'x-gateway-policy': ' cheap ',
        'x-gateway-max-cost-usd': '5e-2',
        'x-gateway-latency-target-ms': '900',
        'x-gateway-no-fallback': 'true',
        'x-gateway-endpoint': 'chat',
        'x-gateway-region': 'eu',
        'x-gateway-sensitivity': 'PII, phi,pii',
        'x-gateway-batch': 'true',
        'x-gateway-no-cache': 'true',
        'x-gateway-debug': 'true',
      }),
    ).toEqual({
      policy: 'cheap',
      maxCostUsd: 0.05,
      latencyTargetMs: 900,
      noFallback: true,
      endpoint: 'chat',
      region: 'eu',
      sensitivity: ['pii', 'phi'],
      batch: true,
      noCache: true,
      debug: true,
    })
  })

  test.each([
    ['X-Gateway-Policy', ''],
    ['X-Gateway-Policy', 'x'.repeat(257)],
    ['X-Gateway-Endpoint', ' '],
    ['X-Gateway-Region', ''],
    ['X-Gateway-Max-Cost-USD', '1e999'],
    ['X-Gateway-Max-Cost-USD', '1e309'],
    ['X-Gateway-Max-Cost-USD', '-1'],
    ['X-Gateway-Max-Cost-USD', '-0.0001'],
    ['X-Gateway-Max-Cost-USD', 'NaN'],
    ['X-Gateway-Max-Cost-USD', 'Infinity'],
    ['X-Gateway-Latency-Target-Ms', '-1'],
    ['X-Gateway-Latency-Target-Ms', 'NaN'],
    ['X-Gateway-Latency-Target-Ms', '1e309'],
    ['X-Gateway-Max-Cost-USD', '0x10'],
    ['X-Gateway-Max-Cost-USD', '1,2'],
    ['X-Gateway-Latency-Target-Ms', '0'],
    ['X-Gateway-Latency-Target-Ms', '9999999999'],
    ['X-Gateway-Sensitivity', ''],
    ['X-Gateway-Sensitivity', 'pii,,phi'],
  ])('S30: %s: %j is refused', (param, value) => {
    expect(() => read({ [param]: value })).toThrow(expect.objectContaining({ code: 'invalid_request', param }))
  })

  test('S30: ten thousand labels are refused', () => {
    const value = Array.from({ length: 10_000 }, (_, i) => `l${i}`).join()
    expect(() => read({ 'X-Gateway-Sensitivity': value })).toThrow(
      expect.objectContaining({ code: 'invalid_request', param: 'X-Gateway-Sensitivity' }),
    )
  })
})
