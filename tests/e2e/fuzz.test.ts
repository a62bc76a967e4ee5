// A short run of the OpenAPI fuzzer over a real gateway; `tests/faults/fuzz.ts` is the long one.
import { expect, test } from 'bun:test'
import { fuzz, withFuzzedGateway } from '../services/fuzz.ts'

const SECONDS = 20

test('no request that schemathesis makes of the document is answered outside the envelope, or with an unexpected 5xx', async () => {
  const result = await withFuzzedGateway((url, key) => fuzz(url, key, SECONDS, 1))
  expect(result.flaws).toEqual([])
  expect(result).toMatchObject({ outsideEnvelope: 0, unexpected5xx: 0 })
  expect(result.passed ? '' : result.output).toBe('')
  expect(result.requests).toBeGreaterThan(100)
  // It got past the door, and was refused for what it should be.
  for (const status of ['200', '400', '401', '404', '405', '501'])
    expect(Object.keys(result.byStatus)).toContain(status)
}, 240_000)
