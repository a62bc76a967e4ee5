// What records say again and again, as text that is made once, is what the runtime would have written.
import { heapStats } from 'bun:jsc'
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { RequestFacts } from '../../../src/domain/events/request.ts'
import { entryTexts, type FactsText, requestFactsText } from '../../../src/inference/records/record-text.ts'
import { TypeCompiler } from '../../../src/lib/schema/schema.ts'
import { wholeText } from '../../../src/lib/text/text-pieces.ts'
import type { CatalogueEntry } from '../../../src/state/port.ts'

/** Names as people choose them, and as nobody should. */
const name = fc.oneof(
  fc.stringMatching(/^[a-z0-9._-]{1,20}$/),
  fc.string({ unit: 'binary', maxLength: 20 }),
  fc.constantFrom('"', '\\', '\n', '\u2028', '\ud800', 'a"b', '', 'naïve', '名', '\u0000'),
)
const orNull = <T>(values: fc.Arbitrary<T>) => fc.option(values, { nil: null })
const count = fc.oneof(fc.nat(), fc.maxSafeNat())
const id = fc.uuid().map((uuid) => `req_${uuid}`)
const isFacts = TypeCompiler.Compile(RequestFacts)

const common = fc.record(
  {
    tenant_id: orNull(fc.constantFrom('ten_1', 'ten_2')),
    key_id: orNull(fc.constantFrom('key_1', 'key_2')),
    requested_model: orNull(name),
    endpoint: orNull(name),
    policy_id: orNull(fc.constantFrom('pol_1', 'pol_2')),
    strategy: orNull(fc.constantFrom('priority', 'cost')),
    stream: fc.boolean(),
    task: fc.constantFrom('chat', 'tools'),
    revision: fc.constantFrom('r1', 'r2'),
    purpose: fc.constantFrom('test', 'detection'),
  },
  {
    requiredKeys: [
      ...(['tenant_id', 'key_id', 'requested_model', 'endpoint', 'policy_id', 'strategy', 'stream'] as const),
      ...(['task', 'revision'] as const),
    ],
  },
)

const whole = (facts: FactsText): string => `${wholeText([facts])}}`

test('the facts of a request, whatever the last request of its key was', () => {
  fc.assert(
    fc.property(
      fc.tuple(id, fc.boolean(), fc.stringMatching(/^[A-Za-z0-9._-]{1,60}$/)), // as `requestContext` leaves them
      count,
      fc.array(common, { minLength: 1, maxLength: 4 }),
      fc.array(fc.tuple(fc.nat({ max: 3 }), orNull(fc.constantFrom('a', 'b')), fc.nat()), { maxLength: 12 }),
      ([own, isOwn, label], n, all, asked) => {
        for (const [which, user, frame] of asked) {
          const each = all[which % all.length]!
          const ids = { id: own, request_id: isOwn ? own : label, trace_id: 'a'.repeat(32) }
          const facts = { ...ids, at_ms: n, seed: n, frame, user }
          const read: unknown = JSON.parse(whole(requestFactsText(facts, each)))
          expect(read).toEqual(JSON.parse(JSON.stringify({ ...facts, ...each })))
          expect(isFacts.Check(read)).toBe(true)
        }
      },
    ),
    { numRuns: 500 },
  )
})

test('a name that was cut short does not keep the text that it was cut from', () => {
  const CHARS = 4_000_000
  const facts = { id: 'req_1', request_id: 'r', trace_id: 'a'.repeat(32), at_ms: 1, seed: 1, frame: 0, user: null }
  const same = { tenant_id: 'ten_1', endpoint: null, policy_id: null, strategy: null, stream: false }
  const tell = (n: number): void => {
    const name = (JSON.parse(`"${String(n).repeat(CHARS / String(n).length)}"`) as string).slice(0, 256)
    const own = { key_id: `key_cut_${n}`, requested_model: name, task: 'chat', revision: 'r1' } as const
    requestFactsText(facts, { ...same, ...own })
  }
  Bun.gc(true)
  const before = heapStats().extraMemorySize
  for (let n = 0; n < 50; n++) tell(n)
  Bun.gc(true)
  expect(heapStats().extraMemorySize - before).toBeLessThan(10 * CHARS)
})

const entry = fc
  .record({ provider: name, providerId: name, name, modelId: name })
  .map((named) => named as unknown as CatalogueEntry)

test('a catalogue entry', () => {
  fc.assert(
    fc.property(entry, (called) => {
      const { provider, providerId: provider_id, name: model, modelId: model_id } = called
      const { candidate, first } = entryTexts(called)
      expect(JSON.parse(`${candidate}""]`)).toEqual(JSON.parse(JSON.stringify([provider_id, model_id, ''])))
      expect(JSON.parse(`{"x":0${first}1}`)).toMatchObject(
        JSON.parse(JSON.stringify({ provider, provider_id, model, model_id })),
      )
    }),
  )
})
