// What the request log takes of a record, and which records it does not read.
import { describe, expect, test } from 'bun:test'
import { foldRequestRecord } from '../../../projections/requests/fold.ts'
import { writeEnvelope } from '../../../src/log/envelope.ts'
import { EarlierRecords } from '../../../src/log/port.ts'
import { admitted, NOON_MS, settled } from '../support.ts'

const ID = 'req_01a1f907-6cd7-71d8-a11a-b856a4219e60'

const folded = (type: string, data: object) => {
  const text = writeEnvelope({ instance: 'ins_1', epoch: 'e1', sequence: 3 }, type, 't', NOON_MS, JSON.stringify(data))
  return foldRequestRecord({ offset: 7, value: Buffer.from(text) }, NOON_MS, 2)
}

// docs/behaviour.md: "Outcomes"
describe('a record of a request', () => {
  test('an admission says when it came by its id, unless it says so itself', () => {
    const { at_ms: _, ...silent } = admitted(ID)
    expect(folded('request.admitted', silent).rows).toMatchObject([{ kind: 'admitted', atMs: 0x01a1f9076cd7 }])
    expect(folded('request.admitted', admitted(ID)).rows).toMatchObject([{ atMs: NOON_MS }])
    expect(folded('request.admitted', { ...silent, id: 'req_1' })).toMatchObject({
      rows: [],
      problem: 'at_ms null is no time',
    })
  })

  test('a settlement names its admission by number in its own process, and by its id after a crash', () => {
    const { admission: _, ...refused } = settled(ID)
    const rowOf = (more: object) => folded('request.settled', { ...refused, ...more }).rows[0]
    expect(rowOf({ admission: 12 })).toMatchObject({ wasAdmitted: true, data: { admission: 'ins_1.e1.12' } })
    expect(rowOf({ admission: 'ins_1.e0.4' })).toMatchObject({ data: { admission: 'ins_1.e0.4' } })
    expect(rowOf({})).toMatchObject({ wasAdmitted: false, data: { admission: null } })
  })

  test('of an earlier build is refused, with the topic and the offset', () => {
    const first = { id: ID, request_id: ID, trace_id: 't', at_ms: NOON_MS, tenant_id: 'ten_1', key_id: null }
    for (const [type, data] of [
      ['request.admitted', { ...first, candidates: [['prov_1', 'mod_1', '']], provider: 'p' }],
      ['request.settled', { ...first, admission: null, outcome: 'denied', cache_hit: false, attempts: [] }],
    ] as const) {
      expect(() => folded(type, data)).toThrow(EarlierRecords)
      expect(() => folded(type, data)).toThrow(/gateway\.requests\.v1\/2 .*earlier build.*offset 7/)
    }
  })
})
