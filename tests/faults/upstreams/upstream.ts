// The fault matrix: every fault of an upstream x (JSON, stream) x (fallback on, off), on a real gateway with raw
// upstreams. Each cell is right when status, code, headers, body, outcome and the calls that were made are what the
// table of errors says (docs/behaviour.md: "Errors"). Exits with 1 when one is not.

import { eventually } from '../../services/eventually.ts'
import { type GatewayProcess, startGateway } from '../../services/gateway.ts'
import { answerRows } from '../matrix/answer-rows.ts'
import { type Cell, cellsOf, faultyName, GOOD, type RecordedOutcome, type Rig, runCell } from '../matrix/cell.ts'
import { connectionRows } from '../matrix/connection-rows.ts'
import { encodingRows } from '../matrix/encoding-rows.ts'
import type { Row } from '../matrix/row.ts'
import { statusRows } from '../matrix/status-rows.ts'
import { bodyOf, MATRIX_POLICY, type MatrixUpstreams, SHORT_POLICY, startMatrixUpstreams } from '../matrix/upstreams.ts'

const AT_ONCE = 6
const wanted = process.argv[2]
const rows = [...connectionRows, ...statusRows, ...answerRows, ...encodingRows].filter(
  ({ name }) => wanted === undefined || name.includes(wanted),
)

const bootstrapOf = (cells: readonly Cell[], upstreams: MatrixUpstreams) => ({
  providers: [
    ...rows.map((row, index) => ({
      name: faultyName(index),
      kind: row.kind ?? 'openai_compatible',
      base_url: upstreams.baseUrl(row),
      ...(row.kind === undefined ? {} : { api_key_env: 'PROVIDER_MATRIX' }),
      ...(row.timeoutMs === undefined ? {} : { timeout_ms: row.timeoutMs }),
      models: cells.filter((cell) => cell.row === row).map(({ model }) => ({ name: model, priority: 1 })),
    })),
    {
      name: GOOD,
      kind: 'openai_compatible',
      base_url: upstreams.good,
      models: cells.map(({ model }) => ({ name: model, priority: 2 })),
    },
  ],
  policies: [
    { name: 'default', strategy: 'priority', ...MATRIX_POLICY },
    { name: 'short', strategy: 'priority', ...SHORT_POLICY },
  ],
})

/** Seeding goes on while the gateway serves already. */
const untilSeeded = (gateway: GatewayProcess, cells: readonly Cell[]) =>
  eventually(
    () => `the registry is seeded:\n${gateway.output().slice(-2_000)}`,
    async () => {
      const answer = await gateway.request('/v1/models')
      // 503 until the log is read.
      const { data = [] } = (await answer.json()) as { data?: { id: string }[] }
      const names = new Set(data.map(({ id }) => id))
      return cells.every(({ model }) => names.has(model))
    },
    { limitMs: 60_000, everyMs: 100 },
  )

/** Shown by the administration API once the read model has it. */
const outcomeOf = async (gateway: GatewayProcess, label: string): Promise<RecordedOutcome> => {
  const answer = await eventually('an outcome is recorded', async () => {
    const found = await gateway.request(`/admin/v1/requests/${label}`)
    return found.ok ? found : null
  })
  const row = (await answer.json()) as Omit<RecordedOutcome, 'attempts'> & {
    routing: Pick<RecordedOutcome, 'attempts'>
  }
  return { ...row, attempts: row.routing.attempts }
}

const rigOf = (gateway: GatewayProcess, upstreams: MatrixUpstreams): Rig => ({
  ask: (model, _label, stream, headers) =>
    gateway.request('/v1/chat/completions', {
      body: bodyOf(model, stream),
      headers,
      signal: AbortSignal.timeout(30_000),
    }),
  calls: upstreams.calls,
  outcome: (label) => outcomeOf(gateway, label),
})

interface Result {
  readonly shown: string
  readonly wrong: readonly string[]
}

const runAll = async (cells: readonly Cell[], rig: Rig): Promise<Map<Cell, Result>> => {
  const results = new Map<Cell, Result>()
  const queue = [...cells]
  const lane = async () => {
    for (let cell = queue.shift(); cell !== undefined; cell = queue.shift()) results.set(cell, await runCell(cell, rig))
  }
  await Promise.all(Array.from({ length: AT_ONCE }, lane))
  return results
}

const print = (results: ReadonlyMap<Cell, Result>, of: readonly Row[]) => {
  const columns = ['json-on', 'json-off', 'stream-on', 'stream-off'] as const
  console.log(`| Fault | JSON, fallback on | JSON, off | stream, fallback on | stream, off |\n|---|---|---|---|---|`)
  for (const row of of) {
    const cell = (column: string) => {
      const found = [...results].find(([each]) => each.row === row && `${each.mode}-${each.fallback}` === column)!
      return `${found[1].wrong.length === 0 ? '' : 'WRONG '}${found[1].shown}`
    }
    console.log(`| ${row.name} | ${columns.map(cell).join(' | ')} |`)
  }
}

const upstreams = startMatrixUpstreams(rows)
const cells = cellsOf(rows)
const gateway = startGateway({
  settings: { bootstrap: bootstrapOf(cells, upstreams), health: { probe_interval: 'off' } },
  env: { PROVIDER_MATRIX: 'sk-matrix-0123456789' },
})
await gateway.until('ready', 60_000)
await untilSeeded(gateway, cells)
const results = await runAll(cells, rigOf(gateway, upstreams))
print(results, rows)
const wrong = [...results].filter(([, result]) => result.wrong.length > 0)
for (const [{ row, mode, fallback }, result] of wrong)
  console.log(`WRONG: ${row.name}, ${mode}, fallback ${fallback}: ${result.wrong.join('; ')}`)
const fellBack = [...results].filter(([, { shown }]) => shown.includes('fallback')).length
console.log(`fallback taken in ${fellBack} cells; cells right: ${results.size - wrong.length} of ${results.size}`)
await gateway.remove()
await upstreams.stop()
process.exit(wrong.length === 0 ? 0 : 1)
