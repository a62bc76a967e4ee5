import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { CAUSE_RETENTION_MS } from '../../src/domain/cause.ts'
import {
  CONTROL_EVENTS,
  ControlState,
  EVENT_VERSION,
  eventIsActive,
  eventIsValid,
  foldDecision,
} from '../../src/domain/control.ts'
import type { Decision, EventRecord } from '../../src/domain/kernel/decision.ts'

const decision = (events: readonly EventRecord[], cause: Decision['cause'] = null): Decision => ({
  parent: '0'.repeat(64),
  at: '2026-11-20T12:00:00.000Z',
  actor: { type: 'system', id: 'test' },
  cause,
  v: 1,
  events,
})
const tenant = (slug: string, more: object = {}): EventRecord => ({
  type: 'tenant.created',
  data: { id: `ten_${slug}`, slug, name: slug, plan: null, managed_by: 'api', ...more },
})

describe('folding a decision', () => {
  test('rows carry the id and the time of the decision that changed them', () => {
    const state = new ControlState()
    foldDecision(state, decision([tenant('a')]), 'rev1', 5)
    expect(state.table('tenants').get('ten_a')).toMatchObject({
      revision: 'rev1',
      created_at: '2026-11-20T12:00:00.000Z',
    })
  })

  test('all of its events or, when one is malformed, none', () => {
    const state = new ControlState()
    const empty = state.digest()
    const folded = foldDecision(state, decision([tenant('a'), tenant('b', { slug: 'NOT A SLUG' })]), 'r', 5)
    expect(folded).toMatchObject({ changes: [], malformed: expect.stringContaining('tenant.created') })
    expect(state.digest()).toBe(empty)
  })

  test('names that live on the prototype are unknown types like any other', () => {
    for (const type of ['constructor', '__proto__', 'toString']) {
      const folded = foldDecision(new ControlState(), decision([{ type, data: { id: 'x' } }]), 'r', 5)
      expect(folded).toMatchObject({ changes: [], unknownTypes: [type], unknownSubjects: ['x'] })
      expect(eventIsValid({ type, data: {} })).toBe(false)
    }
  })

  test('a hostile member name changes that row and nothing else', () => {
    const data = JSON.parse(
      '{"id":"ten_a","slug":"a","name":"a","plan":null,"managed_by":"api","__proto__":{"polluted":true}}',
    )
    foldDecision(new ControlState(), decision([{ type: 'tenant.created', data }]), 'r', 5)
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined()
  })

  test('an overlay decides on top, its parent stays as it was', () => {
    const state = new ControlState()
    foldDecision(state, decision([tenant('a')]), 'r1', 5)
    const before = state.digest()
    const overlay = new ControlState(state)
    foldDecision(overlay, decision([tenant('b')]), 'r2', 6)
    expect(overlay.table('tenants').size).toBe(2)
    expect(overlay.table('tenants').find('slug', 'b')).toEqual(['ten_b'])
    expect(state.table('tenants').size).toBe(1)
    expect(state.digest()).toBe(before)
  })

  test('a cause is remembered with what came of it, and forgotten after a day of log time', () => {
    const state = new ControlState()
    foldDecision(state, decision([tenant('a')], { id: 'c1', body: 'b1' }), 'r1', 1_000)
    expect(state.table('causes').get('c1')).toMatchObject({
      body: 'b1',
      revision: 'r1',
      changes: [{ id: 'ten_a', before: null }],
    })
    foldDecision(state, decision([tenant('b')]), 'r2', 1_000 + CAUSE_RETENTION_MS - 1)
    expect(state.table('causes').get('c1')).toBeDefined()
    foldDecision(state, decision([tenant('c')]), 'r3', 1_000 + CAUSE_RETENTION_MS)
    expect(state.table('causes').get('c1')).toBeUndefined()
  })

  test('causes go after a day, the oldest first, 16 at a decision; one that comes again is young again', () => {
    const steps = fc.array(
      fc.tuple(fc.integer({ min: 0, max: CAUSE_RETENTION_MS / 2 }), fc.integer({ min: -30, max: 30 })),
      {
        maxLength: 80,
      },
    )
    fc.assert(
      fc.property(steps, (taken) => {
        const state = new ControlState()
        let remembered: { readonly id: string; readonly atMs: number }[] = []
        let nowMs = 1_000
        for (const [waitMs, name] of taken) {
          nowMs += waitMs % 5 === 0 ? waitMs : waitMs % 7
          const cause = name < 0 ? null : { id: `c${name}`, body: 'b' }
          foldDecision(state, decision([tenant('a')], cause), 'r', nowMs)
          const over = remembered.filter(({ atMs }) => atMs <= nowMs - CAUSE_RETENTION_MS).slice(0, 16)
          remembered = remembered.filter((one) => !over.includes(one) && one.id !== cause?.id)
          if (cause !== null) remembered.push({ id: cause.id, atMs: nowMs })
          expect([...state.table('causes').rows()].map(([id]) => id)).toEqual(remembered.map(({ id }) => id))
        }
      }),
    )
  })

  test('a digest that is asked for late is the one that was kept at each change', () => {
    const [kept, late, steps] = [new ControlState(), new ControlState(), new ControlState()]
    kept.digest()
    for (let number = 0; number < 900; number++) {
      const events =
        number % 3 === 2 ? [{ type: 'tenant.deleted', data: { id: `ten_${number - 1}` } }] : [tenant(String(number))]
      for (const state of [kept, late, steps]) foldDecision(state, decision(events), `r${number}`, number)
    }
    const begun = steps.settle()
    begun.next()
    begun.return?.() // left off: it begins anew
    expect([...steps.settle()].length).toBe(2)
    expect([late.digest(), steps.digest()]).toEqual([kept.digest(), kept.digest()])
    for (const state of [kept, late]) foldDecision(state, decision([tenant('more')]), 'r', 901)
    expect(late.digest()).toBe(kept.digest())
  })

  test('no digest is made of two states', () => {
    const state = new ControlState()
    for (let number = 0; number < 300; number++) foldDecision(state, decision([tenant(String(number))]), 'r', number)
    const steps = state.settle()
    steps.next()
    foldDecision(state, decision([tenant('more')]), 'r', 301)
    expect(() => steps.next()).toThrow('changed')
  })

  test('a change of nothing but `enabled` is a switch for the audit, whatever it is of', () => {
    const changes = Object.entries(CONTROL_EVENTS).filter(
      ([type, { schema }]) => type.endsWith('.changed') && 'enabled' in (schema.properties as object),
    )
    expect(changes.map(([type]) => type)).toContain('policy.changed')
    for (const [type, event] of changes) {
      const action = (data: object) => (typeof event.action === 'string' ? event.action : event.action(data as never))
      const called = [
        { enabled: false },
        { enabled: true, managed_by: 'api' },
        { enabled: true, name: 'x' },
        { name: 'x' },
      ]
      expect([type, ...called.map((fields) => action({ id: 'some', ...fields }))]).toEqual([
        type,
        'disable',
        'enable',
        'update',
        'update',
      ])
    }
  })

  test('every event type says who and what it is about', () => {
    for (const [type, { action, resource, subject }] of Object.entries(CONTROL_EVENTS)) {
      expect(type).toMatch(/^[a-z_]+\.[a-z_]+$/)
      expect(['string', 'function']).toContain(typeof action)
      expect(resource).not.toBe('')
      expect(typeof subject).toBe('function')
    }
  })
})

describe('the chain itself', () => {
  const start: EventRecord = {
    type: 'chain.started',
    data: { chain_id: 'chain_1', partitions: { 'gateway.requests.v1': 12 } },
  }

  test('is named once, and for ever', () => {
    const state = new ControlState()
    foldDecision(state, decision([start]), 'r1', 1)
    foldDecision(state, decision([{ ...start, data: { ...start.data, chain_id: 'chain_2' } }]), 'r2', 2)
    expect(state.table('chain').get('chain')).toMatchObject({ chain_id: 'chain_1', schema_version: 1, revision: 'r1' })
  })

  test('event versions only go up', () => {
    const state = new ControlState()
    foldDecision(state, decision([start]), 'r1', 1)
    foldDecision(state, decision([{ type: 'schema.activated', data: { version: 3 } }]), 'r2', 2)
    foldDecision(state, decision([{ type: 'schema.activated', data: { version: 2 } }]), 'r3', 3)
    expect(state.table('chain').get('chain')).toMatchObject({ schema_version: 3, revision: 'r2' })
  })

  test('the event types of the first version are active from the start, later ones once the chain says so', () => {
    const state = new ControlState()
    foldDecision(state, decision([start]), 'r1', 1)
    for (const [type, { since = 1 }] of Object.entries(CONTROL_EVENTS)) {
      expect(eventIsActive(state, type)).toBe(since === 1)
    }
    const activated = { type: 'schema.activated', data: { version: EVENT_VERSION } }
    foldDecision(state, decision([activated]), 'r2', 2)
    expect(Object.keys(CONTROL_EVENTS).every((type) => eventIsActive(state, type))).toBe(true)
  })
})
