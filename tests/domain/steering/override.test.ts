import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { CONTROL_EVENTS, foldDecision } from '../../../src/domain/control.ts'
import { canonicalJson, RowSetDigest } from '../../../src/domain/kernel/tables.ts'
import { requireThawed, requireWriteThawed } from '../../../src/domain/steering/freeze.ts'
import { decideOverride, type OverrideCommand } from '../../../src/domain/steering/override.ts'
import {
  HISTORY_RETAINED,
  inForce,
  isInForce,
  overrideKey,
  SWEPT_EVERY,
  TAKEN_BACK_RETAINED,
} from '../../../src/domain/steering/override-row.ts'
import { keyIssued, modelCreated, newWorld, providerCreated, refusal, tenantCreated, type World } from '../world.ts'

const NOW = Date.UTC(2026, 5, 1)
const at = (ms: number) => new Date(ms).toISOString()

let made = 0
const write = (more: Partial<OverrideCommand & { do: 'write' }>): OverrideCommand => ({
  do: 'write',
  id: `ovr_${made++}`,
  kind: 'kill',
  target: null,
  tenant_id: null,
  value: null,
  enabled: true,
  reason: null,
  expires_at: null,
  writer_tenant_id: null,
  nowMs: NOW,
  ...more,
})
const kill = (on: boolean, writer_tenant_id: string | null = null): OverrideCommand => ({
  do: 'kill',
  ids: [`ovr_${made++}`, `ovr_${made++}`],
  provider_id: 'prov_1',
  kill: on,
  reason: 'it lies',
  tenant_id: 'ten_a',
  writer_tenant_id,
  nowMs: NOW,
})
const world = () =>
  newWorld([
    tenantCreated('ten_a'),
    tenantCreated('ten_b'),
    providerCreated('prov_1', 'OpenAI'),
    modelCreated('mod_1', 'prov_1', { name: 'Gpt', aliases: ['Fast'] }),
    keyIssued('key_1', 'ten_a'),
  ])
const does = ({ state, apply }: World, command: OverrideCommand) => apply(decideOverride(state, command))
const stored = (command: OverrideCommand) => decideOverride(world().state, command)[0]!.data

describe('the target and the value of an override', () => {
  test.each<[Partial<OverrideCommand & { do: 'write' }>, object]>([
    [
      { kind: 'kill', target: 'prov_1' },
      { target: 'provider:prov_1', value: null },
    ],
    [{ kind: 'kill', target: ' openai ' }, { target: 'provider:prov_1' }],
    [{ kind: 'kill', target: 'Provider:OPENAI' }, { target: 'provider:prov_1' }],
    [{ kind: 'kill', target: '*' }, { target: '*' }],
    [
      { kind: 'kill', target: 'gone', enabled: false },
      { target: 'provider:gone', enabled: false },
    ],
    [{ kind: 'block', target: 'model:GPT-Next' }, { target: 'model:gpt-next' }],
    [{ kind: 'block', target: 'model:mod_1' }, { target: 'model:gpt' }],
    [{ kind: 'block', target: 'key:key_1' }, { target: 'key:key_1' }],
    [{ kind: 'block', target: 'key:key_1', tenant_id: 'ten_a' }, { target: 'key:key_1' }],
    [{ kind: 'block', target: 'key:key_1', tenant_id: 'ten_b', enabled: false }, { tenant_id: 'ten_b' }],
    [{ kind: 'block', target: 'endpoint:Support' }, { target: 'endpoint:support' }],
    [{ kind: 'block', target: 'tool:Search' }, { target: 'tool:Search' }],
    [
      { kind: 'cap', value: { max_cost_usd: 0.1234567891 } },
      { target: '*', value: { max_cost_usd: 0.123456789 } },
    ],
    [
      { kind: 'force', target: 'model:a:b', value: { model: 'fast' } },
      { target: 'model:a:b', value: { model: 'fast' } },
    ],
    [{ kind: 'disable', value: 'cache' }, { value: { features: ['cache'] } }],
    [{ kind: 'disable', value: ['tools', 'cache'] }, { value: { features: ['cache', 'tools'] } }],
    [{ kind: 'disable', value: { feature: 'fallback' } }, { value: { features: ['fallback'] } }],
    [{ kind: 'cap', value: { max_cost_usd: 1 }, enabled: false }, { value: null }],
    [{ kind: 'freeze' }, { target: '*', value: null }],
  ])('%j is stored as %j', (given, expected) => {
    expect(stored(write(given))).toMatchObject(expected)
  })

  test.each<[Partial<OverrideCommand & { do: 'write' }>, string, string]>([
    [{ kind: 'explode' }, 'invalid', 'kind'],
    [{ kind: 'kill' }, 'invalid', 'target'],
    [{ kind: 'kill', target: 'model:gpt' }, 'invalid', 'target'],
    [{ kind: 'kill', target: 'nobody' }, 'not_found', 'target'],
    [{ kind: 'kill', target: 'prov_1', value: { x: 1 } }, 'invalid', 'value'],
    [{ kind: 'block' }, 'invalid', 'target'],
    [{ kind: 'block', target: 'prov_1' }, 'invalid', 'target'],
    [{ kind: 'block', target: 'gpt' }, 'invalid', 'target'],
    [{ kind: 'block', target: 'model:' }, 'invalid', 'target'],
    [{ kind: 'block', target: 'key:none' }, 'not_found', 'target'],
    [{ kind: 'block', target: 'key:key_1', tenant_id: 'ten_b' }, 'invalid', 'tenant_id'],
    [{ kind: 'freeze', target: 'prov_1' }, 'invalid', 'target'],
    [{ kind: 'cap' }, 'invalid', 'value'],
    [{ kind: 'cap', value: { max_cost_usd: -1 } }, 'invalid', 'value.max_cost_usd'],
    [{ kind: 'cap', value: { max_cost_usd: Number.NaN } }, 'invalid', 'value.max_cost_usd'],
    [{ kind: 'cap', value: { max_cost_usd: 1, currency: 'EUR' } }, 'invalid', 'value.currency'],
    [{ kind: 'force', value: { model: 'nothing' } }, 'invalid', 'value.model'],
    [{ kind: 'force', value: {} }, 'invalid', 'value.model'],
    [{ kind: 'disable', value: 'everything' }, 'invalid', 'value.features'],
    [{ kind: 'disable', value: [] }, 'invalid', 'value.features'],
    [{ kind: 'disable', target: 'prov_1', value: 'cache' }, 'invalid', 'target'],
    [{ kind: 'kill', target: 'prov_1', tenant_id: 'ten_none' }, 'not_found', 'tenant_id'],
    [{ kind: 'kill', target: 'prov_1', expires_at: at(NOW) }, 'invalid', 'expires_at'],
  ])('%j is refused as %s, naming %s', (given, reason, param) => {
    expect(refusal(() => decideOverride(world().state, write(given)))).toEqual([reason as never, param])
  })
})

describe('an override', () => {
  test('holds until it is written again with enabled false; another target or tenant is another override', () => {
    const w = world()
    does(w, write({ target: 'prov_1' }))
    does(w, write({ target: 'prov_1', tenant_id: 'ten_a', enabled: false }))
    does(w, write({ kind: 'block', target: 'model:gpt', enabled: false }))
    expect(inForce(w.state, 'kill', 'provider:prov_1', null, NOW)).not.toBeNull()
    does(w, write({ target: 'openai', enabled: false }))
    expect(inForce(w.state, 'kill', 'provider:prov_1', null, NOW)).toBeNull()
    expect(w.state.table('overrides').size).toBe(4)
  })

  test('ends by itself when it expires, and what stood before it does not come back', () => {
    const w = world()
    does(w, write({ target: 'prov_1' }))
    does(w, write({ target: 'prov_1', expires_at: at(NOW + 1_000) }))
    expect(inForce(w.state, 'kill', 'provider:prov_1', null, NOW + 999)).not.toBeNull()
    expect(inForce(w.state, 'kill', 'provider:prov_1', null, NOW + 1_000)).toBeNull()
  })

  test('a revival takes back the kill for all and that of the caller’s tenant, and no other tenant’s', () => {
    const w = world()
    does(w, kill(true))
    for (const tenant_id of ['ten_a', 'ten_b']) does(w, write({ target: 'prov_1', tenant_id }))
    does(w, kill(false))
    const holds = (tenantId: string | null) => inForce(w.state, 'kill', 'provider:prov_1', tenantId, NOW) !== null
    expect([holds(null), holds('ten_a'), holds('ten_b')]).toEqual([false, false, true])
    expect(refusal(() => decideOverride(w.state, { ...kill(true), provider_id: 'none' } as never))).toEqual([
      'not_found',
      null,
    ])
  })

  test('of a tenant goes with the tenant', () => {
    const w = world()
    does(w, write({ target: 'prov_1', tenant_id: 'ten_a' }))
    does(w, write({ target: 'prov_1', tenant_id: 'ten_b' }))
    const fell = w.apply([{ type: 'tenant.deleted', data: { id: 'ten_a' } }])
    expect(fell.map(({ table }) => table)).toEqual(['tenants', 'keys', 'overrides'])
    expect([...w.state.table('overrides').rows()].map(([, row]) => row.tenant_id)).toEqual(['ten_b'])
  })

  test('after any writes, at any time: the last row of (kind, target, tenant) decides, while enabled and not expired', () => {
    const step = fc.record({
      kind: fc.constantFrom('kill', 'block'),
      subject: fc.constantFrom('a', 'b'),
      tenant_id: fc.constantFrom(null, 'ten_a'),
      enabled: fc.boolean(),
      expires: fc.constantFrom(null, 1, 2, 3),
    })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 24 }), fc.integer({ min: 0, max: 4 }), (steps, clock) => {
        const w = newWorld([tenantCreated('ten_a'), providerCreated('a'), providerCreated('b')])
        const last = new Map<string, { enabled: boolean; expires: number | null }>()
        for (const { kind, subject, tenant_id, enabled, expires } of steps) {
          const target = kind === 'kill' ? subject : `model:${subject}`
          const expires_at = expires === null ? null : at(NOW + expires)
          does(w, write({ kind, target, tenant_id, enabled, expires_at }))
          last.set(`${kind} ${subject} ${tenant_id}`, { enabled, expires })
        }
        for (const kind of ['kill', 'block']) {
          for (const subject of ['a', 'b']) {
            for (const tenantId of [null, 'ten_a']) {
              const row = last.get(`${kind} ${subject} ${tenantId}`)
              const holds = row?.enabled === true && (row.expires === null || row.expires > clock)
              const target = kind === 'kill' ? `provider:${subject}` : `model:${subject}`
              expect(inForce(w.state, kind, target, tenantId, NOW + clock) !== null).toBe(holds)
            }
          }
        }
        const deciding = [...w.state.table('overrides').rows()].filter(([, row]) => isInForce(row, NOW + clock))
        const holding = [...last.values()].filter((row) => row.enabled && (row.expires ?? 9) > clock)
        expect(deciding).toHaveLength(holding.length)
      }),
    )
  })
})

describe('what is kept of overrides', () => {
  const digestOf = ({ state }: World) => {
    const digest = new RowSetDigest()
    for (const table of state.tables()) for (const [id, row] of table.rows()) digest.toggle(table.name, id, row)
    return digest.hex()
  }

  test('of the rows that decide nothing the newest, whatever is in force stays, and the digest stays true', () => {
    const w = world()
    does(w, write({ kind: 'block', target: 'model:guarded' }))
    const history = () =>
      [...w.state.table('overrides').rows()].map(([, row]) => row).filter((row) => row.superseded || !row.enabled)
    const lengths: number[] = []
    for (let i = 0; i < HISTORY_RETAINED + 4 * SWEPT_EVERY; i++) {
      does(w, kill(i % 2 === 0))
      lengths.push(history().length)
    }
    expect(Math.max(...lengths)).toBeLessThan(HISTORY_RETAINED + 2 * SWEPT_EVERY)
    expect(Math.min(...lengths.slice(HISTORY_RETAINED + 1))).toBeGreaterThanOrEqual(HISTORY_RETAINED)
    expect(history().at(-1)?.revision).toBe([...w.state.table('overrides').rows()].at(-1)![1].revision)
    expect(inForce(w.state, 'block', 'model:guarded', null, NOW)).not.toBeNull()
    expect(inForce(w.state, 'kill', 'provider:prov_1', null, NOW)).toBeNull()
    expect(w.state.digest()).toBe(digestOf(w))
  })

  test('the oldest of them, when it is the row that decides, is not lost track of while it is written anew', () => {
    const w = world()
    does(w, write({ kind: 'block', target: 'model:x', enabled: false }))
    // The next row is one at which they are looked through, and there are enough of them.
    const rows = 5 * SWEPT_EVERY - 1
    for (let i = 1; i < rows; i++) does(w, write({ target: 'prov_1', enabled: false }))
    expect(w.state.table('overrides').size).toBe(rows)
    does(w, write({ kind: 'block', target: 'model:x', enabled: false }))
    expect(w.state.digest()).toBe(digestOf(w))
    does(w, write({ kind: 'block', target: 'model:x' }))
    expect(inForce(w.state, 'block', 'model:x', null, NOW)).not.toBeNull()
    expect(w.state.digest()).toBe(digestOf(w))
  })

  test('what bootstrap imposed and somebody took back stays taken back, however many rows come; those rows are bounded', () => {
    const w = world()
    let height = 10_000
    const by = (id: string, command: OverrideCommand) => {
      const events = decideOverride(w.state, command)
      const actor = { type: 'system', id } as const
      foldDecision(w.state, { parent: '', at: at(NOW), actor, cause: null, v: 1, events }, `r${++height}`, NOW)
    }
    const deciding = (target: string) => w.state.table('overrides').find('deciding', overrideKey('block', target, null))
    const block = { kind: 'block', target: 'model:seeded' }
    by('bootstrap', write(block))
    by('bootstrap', write({ ...block, reason: 'as the settings say now' }))
    by('ada', write({ ...block, enabled: false }))
    by('ada', write({ kind: 'block', target: 'model:own' }))
    by('ada', write({ kind: 'block', target: 'model:own', enabled: false }))
    for (let i = 0; i < HISTORY_RETAINED + 2 * SWEPT_EVERY; i++) by('ada', kill(i % 2 === 0))
    expect([deciding('model:seeded').length, deciding('model:own').length]).toEqual([1, 0])
    by('ada', write({ ...block, reason: 'again' }))
    by('ada', write({ ...block, enabled: false }))
    for (let i = 0; i < HISTORY_RETAINED + 2 * SWEPT_EVERY; i++) by('ada', kill(i % 2 === 0))
    expect(deciding('model:seeded')).toHaveLength(1)
    expect(w.state.digest()).toBe(digestOf(w))
    const times = TAKEN_BACK_RETAINED + 2 * SWEPT_EVERY
    for (let i = 0; i < times; i++) {
      by('bootstrap', write({ kind: 'block', target: `model:m${i}` }))
      by('ada', write({ kind: 'block', target: `model:m${i}`, enabled: false }))
    }
    expect([deciding('model:seeded').length, deciding(`model:m${times - 1}`).length]).toEqual([0, 1])
    expect(w.state.table('overrides').size).toBeLessThan(HISTORY_RETAINED + TAKEN_BACK_RETAINED + 4 * SWEPT_EVERY)
    expect(w.state.digest()).toBe(digestOf(w))
  })

  test('rows that expired a day ago in log time make room once many stand', () => {
    const w = world()
    const many = 4 * SWEPT_EVERY - 1
    for (let i = 0; i < many; i++) does(w, write({ kind: 'block', target: `model:m${i}`, expires_at: at(NOW + 1) }))
    expect(w.state.table('overrides').size).toBe(many)
    const events = decideOverride(w.state, write({ kind: 'block', target: 'model:last' }))
    const decision = { parent: '', at: at(NOW), actor: { type: 'system', id: 't' }, cause: null, v: 1, events } as const
    foldDecision(w.state, decision, 'r', NOW + 86_400_001)
    expect([...w.state.table('overrides').rows()].map(([, row]) => row.target)).toEqual(['model:last'])
    expect(w.state.digest()).toBe(digestOf(w))
  })

  test('the audit calls it kill and revive, enable and disable', () => {
    const action = CONTROL_EVENTS['override.written']!.action as (data: object) => string
    const called = (kind: string, enabled: boolean) => action({ kind, enabled })
    expect([called('kill', true), called('kill', false)]).toEqual(['kill', 'revive'])
    expect([called('cap', true), called('cap', false)]).toEqual(['enable', 'disable'])
  })

  test('an overlay decides as the state itself does', () => {
    const w = world()
    does(w, kill(true))
    const rows = canonicalJson([...w.state.table('overrides').rows()])
    expect(decideOverride(w.state, kill(false))).toHaveLength(1)
    expect(canonicalJson([...w.state.table('overrides').rows()])).toBe(rows)
  })
})

describe('a freeze', () => {
  const actor = { type: 'key', id: 'key_1' } as const
  const other = { type: 'system', id: 'x' } as const
  const events = [tenantCreated('ten_new')]

  test('of everything refuses every write until it is taken back or expires', () => {
    const w = world()
    does(w, write({ kind: 'freeze', expires_at: at(NOW + 5), reason: 'audit' }))
    expect(refusal(() => requireWriteThawed(w.state, other, events, NOW))).toEqual(['forbidden', null])
    expect(refusal(() => requireThawed(w.state, [], NOW + 4))).toEqual(['forbidden', null])
    requireWriteThawed(w.state, other, [], NOW)
    requireWriteThawed(w.state, other, events, NOW + 5)
    does(w, write({ kind: 'freeze', enabled: false }))
    requireWriteThawed(w.state, other, events, NOW)
  })

  test('of a tenant refuses what its keys write and what is written of its own, and nothing else', () => {
    const w = world()
    does(w, write({ kind: 'freeze', tenant_id: 'ten_a' }))
    const refused = (by: typeof actor | typeof other, event: { type: string; data: Record<string, unknown> }) => {
      try {
        requireWriteThawed(w.state, by, [event], NOW)
        return false
      } catch {
        return true
      }
    }
    expect(refused(actor, tenantCreated('ten_new'))).toBe(true)
    expect(refused(other, tenantCreated('ten_new'))).toBe(false)
    expect(refused(other, { type: 'tenant.deleted', data: { id: 'ten_a' } })).toBe(true)
    expect(refused(other, { type: 'api_key.revoked', data: { id: 'key_1' } })).toBe(true)
    expect(refused(other, keyIssued('key_2', 'ten_a'))).toBe(true)
    expect(refused(other, keyIssued('key_2', 'ten_b'))).toBe(false)
  })
})
