import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { decideOperator, MAX_OPERATORS } from '../../../src/domain/access/operator.ts'
import { decideSession, IDLE_MS, MAX_SESSIONS, SEEN_EVERY_MS, SESSION_MS } from '../../../src/domain/access/session.ts'
import { setupIsOpen } from '../../../src/domain/access/setup.ts'
import { Rejection } from '../../../src/domain/kernel/rejection.ts'
import { sha256Hex } from '../../../src/lib/crypto/digest.ts'
import { newWorld, refusal, type World } from '../world.ts'

const secrets = (name: string, keyId = `dek_${name}`) => ({
  name_digests: [`new ${name}`, `old ${name}`] as const,
  key_id: keyId,
  sealed: 'sealed',
})
const create = (world: World, id: string, name = id) =>
  world.apply(decideOperator(world.state, { do: 'create', id, ...secrets(name) }))
const open = (world: World, id: string, operator: string, replaces: string | null = null) => {
  const key_id = world.state.table('operators').get(operator)?.key_id ?? 'none'
  const opened = { id, operator_id: operator, digest: sha256Hex(id), expires_at: '2026-01-01T12:00:00.000Z' }
  return world.apply(decideSession(world.state, { do: 'open', key_id, replaces, ...opened }))
}

describe('the latch of set-up', () => {
  test('is closed by the first operator, whoever makes it, and never opens again', () => {
    const world = newWorld()
    const events = decideOperator(world.state, { do: 'set_up', id: 'op_1', ...secrets('ada') })
    expect(events.map(({ type }) => type)).toEqual(['operator.created', 'setup.completed'])
    expect(JSON.stringify(events)).not.toContain('old ada') // only the current digest is stored
    world.apply(events)
    const again = () => decideOperator(world.state, { do: 'set_up', id: 'op_2', ...secrets('bob') })
    expect(refusal(again)).toEqual(['forbidden', null])
    expect(create(world, 'op_2', 'bob').map(({ table }) => table)).toEqual(['operators'])
    for (const id of ['op_1', 'op_2']) world.apply(decideOperator(world.state, { do: 'delete', id }))
    expect(world.state.table('operators').size).toBe(0)
    expect(setupIsOpen(world.state)).toBe(false)
    expect(refusal(again)).toEqual(['forbidden', null])
  })
})

describe('operators', () => {
  test('are found by any digest of their name, so that a new master key finds old ones', () => {
    const world = newWorld()
    create(world, 'op_1', 'ada')
    const named = (...digests: [string, ...string[]]) =>
      refusal(() => decideOperator(world.state, { do: 'create', id: 'op_9', ...secrets('x'), name_digests: digests }))
    expect(named('new ada')).toEqual(['conflict', 'username'])
    expect(named('newer ada', 'new ada')).toEqual(['conflict', 'username'])
  })

  test('are bounded in number', () => {
    const world = newWorld()
    for (let i = 0; i < MAX_OPERATORS; i++) create(world, `op_${i}`)
    expect(refusal(() => create(world, 'op_more'))).toEqual(['conflict', null])
  })

  test('a password is changed once of two at a time; sessions end but for one of its own', () => {
    const world = newWorld()
    create(world, 'op_1')
    create(world, 'op_2')
    for (const id of ['ses_a', 'ses_b']) open(world, id, 'op_1')
    open(world, 'ses_c', 'op_2')
    const command = {
      do: 'change_password' as const,
      id: 'op_1',
      seen_key_id: 'dek_op_1',
      kept_session_id: 'ses_b',
      ...secrets('op_1', 'dek_next'),
    }
    world.apply(decideOperator(world.state, command))
    expect([...world.state.table('sessions').rows()].map(([id]) => id)).toEqual(['ses_b', 'ses_c'])
    expect(refusal(() => decideOperator(world.state, command))).toEqual(['conflict', null])
    expect(refusal(() => decideOperator(world.state, { ...command, id: 'op_x' }))).toEqual(['not_found', null])
  })
})

describe('sessions', () => {
  test('are opened only for the password that stands', () => {
    const world = newWorld()
    create(world, 'op_1')
    const opened = { id: 'ses_1', operator_id: 'op_1', digest: sha256Hex('x'), expires_at: '2026-01-01T12:00:00.000Z' }
    for (const [operator_id, key_id] of [
      ['op_1', 'dek_before'],
      ['op_2', 'dek_op_1'],
    ] as const) {
      const command = { do: 'open', replaces: null, ...opened, operator_id, key_id } as const
      expect(refusal(() => decideSession(world.state, command))).toEqual(['forbidden', null])
    }
  })

  test('that nobody can use any more are dropped with the next login', () => {
    const world = newWorld()
    create(world, 'op_1')
    open(world, 'ses_1', 'op_1')
    const later = SESSION_MS + IDLE_MS + SEEN_EVERY_MS + 3_600_000
    const row = { ...world.state.table('sessions').get('ses_1')!, seen_at: new Date(-later).toISOString() }
    world.state.apply([
      { table: 'sessions', id: 'ses_1', before: world.state.table('sessions').get('ses_1')!, after: row },
    ])
    open(world, 'ses_2', 'op_1')
    expect([...world.state.table('sessions').rows()].map(([id]) => id)).toEqual(['ses_2'])
  })

  test('after any commands: no more than allowed, each of an operator that is, and a repeat changes nothing', () => {
    const operator = fc.constantFrom('op_1', 'op_2')
    const session = fc.integer({ min: 1, max: 70 }).map((number) => `ses_${String(number).padStart(3, '0')}`)
    const step = fc.oneof(
      {
        weight: 12,
        arbitrary: fc.record({ do: fc.constant('open' as const), operator, session, replaces: fc.option(session) }),
      },
      fc.record({ do: fc.constant('close' as const), session }),
      fc.record({ do: fc.constant('see' as const), session, hours: fc.integer({ min: 0, max: 3 }) }),
      fc.record({ do: fc.constant('create' as const), operator }),
      fc.record({ do: fc.constant('delete' as const), operator }),
    )
    fc.assert(
      fc.property(fc.array(step, { maxLength: 150, size: 'max' }), (steps) => {
        const world = newWorld()
        const { state } = world
        for (const one of steps) {
          try {
            if (one.do === 'open') {
              if (state.table('sessions').get(one.session) === undefined)
                open(world, one.session, one.operator, one.replaces)
            } else if (one.do === 'create') create(world, one.operator)
            else if (one.do === 'delete') world.apply(decideOperator(state, { do: 'delete', id: one.operator }))
            else if (one.do === 'close') {
              world.apply(decideSession(state, { do: 'close', id: one.session }))
              expect(decideSession(state, { do: 'close', id: one.session })).toEqual([])
            } else {
              const command = {
                do: 'see',
                id: one.session,
                nowMs: Date.UTC(2026, 0, 1) + one.hours * 3_600_000,
              } as const
              const events = decideSession(state, command)
              expect(events.length === 1).toBe(one.hours > 0 && state.table('sessions').get(one.session) !== undefined)
            }
          } catch (error) {
            if (!(error instanceof Rejection)) throw error
          }
        }
        for (const [, row] of state.table('sessions').rows()) {
          expect(state.table('operators').get(row.operator_id)).toBeDefined()
          expect(state.table('sessions').find('operator', row.operator_id).length).toBeLessThanOrEqual(MAX_SESSIONS)
        }
      }),
      { numRuns: 60 },
    )
  })
})
