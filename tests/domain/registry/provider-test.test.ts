// Records of provider tests: they are bounded in number and are deleted with their provider. Also what a detection
// writes to the models.
import { describe, expect, test } from 'bun:test'
import { CONTROL_EVENTS, eventIsValid } from '../../../src/domain/control.ts'
import {
  decideDetection,
  decideProviderTest,
  MOST_TESTED_PROBES,
  MOST_TESTS,
  PROBE,
  type ProviderTested,
  testsOf,
} from '../../../src/domain/registry/provider-test.ts'
import { modelCreated, newWorld, providerCreated, refusal } from '../world.ts'

const tested = (id: string, more: Partial<ProviderTested> = {}): ProviderTested => ({
  id,
  provider_id: 'prov_a',
  kind: 'test',
  success: true,
  results: [{ check: 'connectivity', status: 'passed', latency_ms: 3, detail: 'it answers' }],
  ...more,
})

describe('a provider test', () => {
  test('is a row with its number, under the id of the test', () => {
    const world = newWorld([providerCreated('prov_a')])
    world.apply(decideProviderTest(world.state, tested('test_1')))
    world.apply(decideProviderTest(world.state, tested('test_2', { success: false })))
    expect(testsOf(world.state, 'prov_a')).toMatchObject([
      { id: 'test_2', number: 2, success: false },
      { id: 'test_1', number: 1, success: true },
    ])
  })

  test('the oldest makes way, of its own provider only', () => {
    const world = newWorld([providerCreated('prov_a'), providerCreated('prov_b')])
    world.apply(decideProviderTest(world.state, tested('other', { provider_id: 'prov_b' })))
    // Ids in no order: the chain decides what is old.
    const ids = Array.from({ length: MOST_TESTS + 7 }, (_, i) => `test_${(i * 31) % 97}`)
    for (const id of ids) world.apply(decideProviderTest(world.state, tested(id)))
    expect(testsOf(world.state, 'prov_a').map(({ id }) => id)).toEqual(ids.slice(7).toReversed())
    expect(testsOf(world.state, 'prov_b')).toHaveLength(1)
  })

  test('probes, which programs ask for, do not push out what people had tested', () => {
    const world = newWorld([providerCreated('prov_a')])
    const probe = (id: string) =>
      tested(id, { results: [{ check: PROBE, status: 'passed', latency_ms: 3, detail: 'it answers' }] })
    for (let i = 0; i < MOST_TESTS - MOST_TESTED_PROBES; i++)
      world.apply(decideProviderTest(world.state, tested(`test_${i}`)))
    for (let i = 0; i < 3 * MOST_TESTS; i++) world.apply(decideProviderTest(world.state, probe(`probe_${i}`)))
    const kept = testsOf(world.state, 'prov_a').map(({ id }) => id)
    expect(kept.slice(0, MOST_TESTED_PROBES)).toEqual(
      Array.from({ length: MOST_TESTED_PROBES }, (_, i) => `probe_${149 - i}`),
    )
    expect(kept.slice(MOST_TESTED_PROBES)).toEqual(Array.from({ length: 40 }, (_, i) => `test_${39 - i}`))
  })

  test('goes with its provider, and is of a provider that is there', () => {
    const world = newWorld([providerCreated('prov_a')])
    world.apply(decideProviderTest(world.state, tested('test_1')))
    world.apply([{ type: 'provider.deleted', data: { id: 'prov_a' } }])
    expect(world.state.table('tests').size).toBe(0)
    expect(refusal(() => decideProviderTest(world.state, tested('test_2')))[0]).toBe('not_found')
    expect(world.apply([{ type: 'provider.tested', data: tested('test_3') }])).toEqual([])
  })

  test('the audit calls it test, a detection detect, a synchronisation sync', () => {
    const { action, resource, subject } = CONTROL_EVENTS['provider.tested']!
    const of = (kind: ProviderTested['kind']) =>
      typeof action === 'string' ? action : action(tested('test_1', { kind }))
    expect([of('test'), of('detection'), of('sync')]).toEqual(['test', 'detect', 'sync'])
    expect([resource, subject(tested('test_1'))]).toEqual(['test_result', 'test_1'])
  })

  test('a later build may know other kinds and statuses; a longer detail is refused', () => {
    const event = (data: unknown) => ({ type: 'provider.tested', data: data as Record<string, unknown> })
    expect(eventIsValid(event({ ...tested('test_1'), kind: 'audit', further: 1 }))).toBe(true)
    const long = { check: 'sample', status: 'failed', latency_ms: 1, detail: 'x'.repeat(401) }
    expect(eventIsValid(event({ ...tested('test_1'), results: [long] }))).toBe(false)
  })
})

describe('a detection', () => {
  const detected = tested('test_1', { kind: 'detection' })
  const found = (model_id: string, proven: string[], disproved: string[] = []) => ({ model_id, proven, disproved })

  test('adds what is proven, takes out what is disproved, keeps the rest, and says who says so', () => {
    const row = { capabilities: ['chat', 'vision', 'json_mode'], capability_source: 'kind' }
    const world = newWorld([providerCreated('prov_a'), modelCreated('mod_1', 'prov_a', row)])
    const events = decideDetection(world.state, detected, [found('mod_1', ['chat', 'tools'], ['vision'])])
    expect(events[0]!.type).toBe('provider.tested')
    world.apply(events)
    expect(world.state.table('models').get('mod_1')).toMatchObject({
      capabilities: ['chat', 'tools', 'json_mode'],
      capability_source: 'detected',
    })
  })

  test('an operator’s list stays; so does that of a model of which nothing was found, or that is gone', () => {
    const own = { capabilities: ['chat'], capability_source: 'operator' }
    const kind = { capabilities: ['chat'], capability_source: 'kind' }
    const world = newWorld([
      providerCreated('prov_a'),
      modelCreated('mod_1', 'prov_a', own),
      modelCreated('mod_2', 'prov_a', kind),
    ])
    const all = [found('mod_1', ['tools']), found('mod_2', []), found('mod_gone', ['tools'])]
    expect(decideDetection(world.state, detected, all).map(({ type }) => type)).toEqual(['provider.tested'])
  })
})
