// What the fold of one override costs: it may not be all rows at each.
import { expect, test } from 'bun:test'
import type { ControlReader } from '../../../src/domain/control.ts'
import { decideOverride, override } from '../../../src/domain/steering/override.ts'
import { HISTORY_RETAINED, SWEPT_EVERY } from '../../../src/domain/steering/override-row.ts'
import { newWorld } from '../world.ts'

const NOW = Date.UTC(2026, 5, 1)

test('all rows are walked at few decisions only, however many stand or were superseded', () => {
  const { state } = newWorld([])
  let walks = 0
  const walked = {
    table: (name: 'overrides') => {
      const table = state.table(name)
      return new Proxy(table, {
        get(of, member) {
          if (member === 'rows') walks += 1
          const value = Reflect.get(of, member, of)
          return typeof value === 'function' ? value.bind(of) : value
        },
      })
    },
  }
  const evolve = (n: number) => {
    const data = { id: `ovr_${n}`, kind: 'block', target: `model:m${n % 1_500}`, tenant_id: null, value: null }
    const event = {
      type: 'override.written',
      data: { ...data, enabled: true, reason: null, expires_at: new Date(NOW + n).toISOString() },
    }
    const meta = {
      revision: `r${n}`,
      at: new Date(NOW).toISOString(),
      logAtMs: NOW + n,
      actor: { type: 'key', id: 'k' },
    } as const
    state.apply(override.evolve(walked as unknown as ControlReader, event, meta))
  }
  for (let n = 0; n < 10_000; n++) evolve(n)
  expect(walks).toBeLessThan(10_000 / (SWEPT_EVERY / 2))
  expect(state.table('overrides').size).toBeLessThan(1_500 + HISTORY_RETAINED + 2 * SWEPT_EVERY)
})

test('what expired a day ago is not counted among the 10,000 that may stand', () => {
  const { state } = newWorld([])
  const value = { max_cost_usd: 1 }
  const nothing = { kind: 'cap', tenant_id: null, value, enabled: true, reason: null, writer_tenant_id: null }
  const meta = {
    revision: 'r',
    at: new Date(NOW).toISOString(),
    logAtMs: NOW,
    actor: { type: 'key', id: 'k' },
  } as const
  for (let n = 0; n < 10_000; n++) {
    const expires_at = n === 0 ? new Date(NOW + 1).toISOString() : null
    const data = { ...nothing, id: `ovr_${n}`, target: `model:m${n}`, expires_at }
    state.apply(override.evolve(state, { type: 'override.written', data }, meta))
  }
  const decide = (nowMs: number) =>
    decideOverride(state, { do: 'write', ...nothing, id: 'ovr_last', target: 'model:last', expires_at: null, nowMs })
  expect(() => decide(NOW)).toThrow('at most 10000 overrides that were written with the scope "*" may stand')
  expect(decide(NOW + 86_400_001)).toHaveLength(1)
})
