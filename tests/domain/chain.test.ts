import { describe, expect, test } from 'bun:test'
import { decideChain } from '../../src/domain/chain.ts'
import { ControlState, foldDecision } from '../../src/domain/control.ts'

const started = () => {
  const state = new ControlState()
  const events = decideChain(state, { do: 'start', chain_id: 'chain_1', partitions: {} })
  foldDecision(
    state,
    { parent: '', at: '2026-11-20T12:00:00.000Z', actor: { type: 'system', id: 't' }, cause: null, v: 1, events },
    'r',
    1,
  )
  return state
}

describe('deciding about the chain', () => {
  test('it is started once; again changes nothing', () => {
    expect(decideChain(started(), { do: 'start', chain_id: 'chain_2', partitions: {} })).toEqual([])
  })

  test('a version is activated when every live instance knows it', () => {
    expect(decideChain(started(), { do: 'activate', version: 2, announced: [2, 3] })).toEqual([
      { type: 'schema.activated', data: { version: 2 } },
    ])
  })

  test.each([
    ['one does not know it', [2, 1]],
    ['nobody is known to live', []],
  ])('not while %s', (_, announced) => {
    expect(() => decideChain(started(), { do: 'activate', version: 2, announced })).toThrow('version 2')
  })
})
