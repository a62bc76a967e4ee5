import { describe, expect, test } from 'bun:test'
import { CONTROL_EVENTS } from '../../../src/domain/control.ts'
import { REQUEST_EVENTS } from '../../../src/domain/events/request.ts'
import { GENESIS } from '../../../src/domain/kernel/decision.ts'
import { createUpcast, renewed, UPCASTERS } from '../../../src/domain/kernel/upcasters.ts'

describe('upcasting', () => {
  const upcast = createUpcast({
    'tenant.made': ({ title, ...data }) => ({ type: 'tenant.born', data: { ...data, name: title } }),
    'tenant.born': (data) => ({ type: 'tenant.created', data: { plan: null, ...data } }),
  })

  test('an event of today is answered as it is', () => {
    const event = { type: 'tenant.created', data: { id: 'ten_1' } }
    expect(upcast(event)).toBe(event)
  })

  test('an event of an earlier type takes every step to today', () => {
    expect(upcast({ type: 'tenant.made', data: { id: 'ten_1', title: 'Acme' } })).toEqual({
      type: 'tenant.created',
      data: { plan: null, id: 'ten_1', name: 'Acme' },
    })
  })

  test('names of object members are no event types', () => {
    const event = { type: 'constructor', data: {} }
    expect(upcast(event)).toBe(event)
  })

  test('a circle is an error, not an endless loop', () => {
    const circle = createUpcast({ a: (data) => ({ type: 'b', data }), b: (data) => ({ type: 'a', data }) })
    expect(() => circle({ type: 'a', data: {} })).toThrow(RangeError)
  })

  test('a decision without earlier types stays the same object', () => {
    const decision = {
      parent: GENESIS,
      at: '2026-11-20T00:00:00.000Z',
      actor: { type: 'system', id: 'test' },
      by: 'ins_1',
      cause: null,
      v: 1,
      events: [{ type: 'tenant.deleted', data: { id: 'ten_1' } }],
    } as const
    expect(renewed(decision)).toBe(decision)
  })

  test('an earlier type that has an upcaster is no longer a type of today', () => {
    const known = new Set([...Object.keys(CONTROL_EVENTS), ...Object.keys(REQUEST_EVENTS)])
    for (const type of Object.keys(UPCASTERS)) expect(known.has(type)).toBe(false)
  })
})
