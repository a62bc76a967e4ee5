// A short selection of the fault matrix, one test a cell. `tests/faults/upstreams/upstream.ts` runs the whole matrix on
// a real gateway.
import { afterAll, describe, expect, test } from 'bun:test'
import { kindOf } from '../../../src/providers/kinds.ts'
import { answerRows } from '../../faults/matrix/answer-rows.ts'
import { type Cell, cellsOf, GOOD, type Rig, runCell } from '../../faults/matrix/cell.ts'
import { connectionRows } from '../../faults/matrix/connection-rows.ts'
import { encodingRows } from '../../faults/matrix/encoding-rows.ts'
import { statusRows } from '../../faults/matrix/status-rows.ts'
import { bodyOf, MATRIX_POLICY, SHORT_POLICY, startMatrixUpstreams } from '../../faults/matrix/upstreams.ts'
import { entry, policyRow, testGateway } from '../gateway.ts'

const rows = [...connectionRows, ...statusRows, ...answerRows, ...encodingRows].filter((row) => row.short === true)
const cells = cellsOf(rows)
const upstreams = startMatrixUpstreams(rows)
const kind = 'openai_compatible'

const entriesOf = ({ row, model }: Cell) => [
  entry({
    name: model,
    provider: `faulty-${rows.indexOf(row)}`,
    kind,
    baseUrl: upstreams.baseUrl(row),
    timeoutMs: row.timeoutMs ?? null,
    priority: 1,
  }),
  entry({ name: model, provider: GOOD, kind, baseUrl: upstreams.good, priority: 2 }),
]

/** So long that no answer of ours is late on a busy machine: rows that wait for one of them wait beside each other. */
const patient = { connect_ms: 2_000, first_token_ms: 5_000, stream_idle_ms: 2_000 }
const gateway = testGateway({
  entries: cells.flatMap(entriesOf),
  kinds: [kindOf(kind)!],
  policies: [
    policyRow({ strategy: 'priority', ...MATRIX_POLICY, timeouts: { ...MATRIX_POLICY.timeouts, ...patient } }),
    policyRow({ name: 'short', strategy: 'priority', ...SHORT_POLICY }),
  ],
})
afterAll(async () => {
  gateway.close()
  await upstreams.stop()
})

const rig: Rig = {
  ask: (model, _label, stream, headers) => gateway.chat(bodyOf(model, stream), { ...headers }),
  calls: upstreams.calls,
  async outcome(label) {
    const of = () => gateway.spool.settled().find(({ request_id }) => request_id === label)
    while (of() === undefined) await gateway.spool.untilSettled(gateway.spool.settled().length + 1)
    return of()!
  },
}

describe('a fault of an upstream', () => {
  for (const cell of cells) {
    test.concurrent(`${cell.row.name}, ${cell.mode}, fallback ${cell.fallback}`, async () => {
      expect((await runCell(cell, rig)).wrong).toEqual([])
    })
  }
})
