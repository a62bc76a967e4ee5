import { expect, test } from 'bun:test'
import { readTraceParent, readTraceState } from '../../../src/lib/http/trace-context.ts'

test('a state that could not be sent on is dropped: it must never fail the request that carries it', () => {
  expect(readTraceState('vendor=a, other=b:c')).toBe('vendor=a, other=b:c')
  for (const state of [null, '', 'v=\u00e9', 'v=\u20ac', 'v=\u0000', 'v=a\r\nx: y', `v=${'a'.repeat(600)}`])
    expect(readTraceState(state)).toBeNull()
})

test('a parent is read only as the standard writes it', () => {
  const [trace, span] = ['4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7']
  expect(readTraceParent(`00-${trace}-${span}-01`)).toEqual({ traceId: trace, spanId: span, sampled: true })
  for (const bad of [null, '', `ff-${trace}-${span}-01`, `00-${'0'.repeat(32)}-${span}-01`, `00-${trace}-${span}-01-x`])
    expect(readTraceParent(bad)).toBeNull()
})
