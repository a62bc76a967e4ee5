// Short runs of the OpenAPI fuzzer over a real gateway; `tests/faults/clients/fuzz.ts` is the long one.
import { expect, test } from 'bun:test'
import { fuzzGateway } from '../services/fuzz.ts'

test.each([
  ['v1', 20, ['200', '400', '401', '404', '405', '501']],
  // It has five times the operations.
  ['admin', 40, ['200', '201', '400', '404', '405', '501']],
] as const)(
  'no request that schemathesis makes of the document (%s) is answered outside the envelope, or with an unexpected 5xx',
  async (part, seconds, reached) => {
    const result = await fuzzGateway(part, seconds, 1)
    expect(result.flaws).toEqual([])
    expect(result).toMatchObject({ outsideEnvelope: 0, unexpected5xx: 0 })
    expect(result.passed ? '' : result.output).toBe('')
    expect(result.requests).toBeGreaterThan(20) // of a machine that does much else
    // It got past the door, and was refused for what it should be.
    for (const status of reached) expect(Object.keys(result.byStatus)).toContain(status)
    expect([result.verified.code, result.verified.lines]).toEqual([0, []])
  },
  240_000,
)
