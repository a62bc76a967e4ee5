// What a request asked for of its answer's block is told however it ends: `structured`, and `tool_run`.
import { afterAll, beforeEach, describe, expect, test } from 'bun:test'
import { type Behaviour, startUpstream } from '../../services/upstream.ts'
import { entry, framesOf, type TestGateway, testGateway } from '../gateway.ts'

const upstream = startUpstream()
let gateway: TestGateway
beforeEach(() => {
  gateway?.close()
  upstream.behave({})
  gateway = testGateway({ entries: [entry({ baseUrl: upstream.baseUrl })] })
})
afterAll(async () => {
  gateway.close()
  await upstream.stop()
})

const ask = { model: 'small', messages: [{ role: 'user', content: 'hi' }] }
const formed = { response_format: { type: 'json_object' } }
const manual = { tool_execution: { mode: 'manual' } }
const weather = { tools: [{ type: 'function', function: { name: 'weather' } }] }

type Block = { structured?: object; tool_run?: object; request_id: string }
interface Told {
  readonly gateway?: Block
  readonly event?: string
  readonly data?: { readonly gateway: Block }
}

/** The block of a whole answer or a failure. */
const block = async (more: object): Promise<Block> =>
  ((await (await gateway.chat({ ...ask, ...more })).json()) as { gateway: Block }).gateway
/** The block that a stream ends with. */
const lastBlock = async (more: object): Promise<Block> => {
  const frames = (await framesOf(await gateway.chat({ ...ask, stream: true, ...more }))) as Told[]
  const last = frames.at(-2)!
  return (last.data?.gateway ?? last.gateway)!
}

// docs/behaviour.md: "Tools"
describe('tool_run', () => {
  const called: Behaviour = { tool: { name: 'weather', arguments: '{"a":1}' } }

  test('rides on the last frame of a stream, whether the client asked for usage or not', async () => {
    upstream.behave(called)
    const run = { mode: 'manual', status: 'client_executed', calls: 1, tools: ['weather'], stop_reason: 'completed' }
    expect((await lastBlock(weather)).tool_run).toMatchObject(run)
    expect((await lastBlock({ ...weather, stream_options: { include_usage: true } })).tool_run).toMatchObject(run)
  })

  test('is there where the execution was asked for, though no tool was called', async () => {
    expect((await lastBlock({ ...weather, ...manual })).tool_run).toMatchObject({ calls: 0, tools: [] })
    expect(await lastBlock(weather)).not.toHaveProperty('tool_run')
  })

  test('is there when a provider fails, and when a stream breaks off', async () => {
    upstream.next({ status: 400 })
    expect((await block({ ...weather, ...manual })).tool_run).toMatchObject({ calls: 0, stop_reason: 'error' })
    upstream.next({ ...called, stopAfter: 2, stop: 'cut', chunks: 5, chunkDelayMs: 2 })
    expect((await lastBlock(weather)).tool_run).toMatchObject({ tools: ['weather'], stop_reason: 'error' })
  })
})

describe('structured', () => {
  const unknown = { requested: 'json_object', valid: null, error: null, repaired: false, unchecked: [] }

  test('is there when a provider fails, and when nobody may answer', async () => {
    upstream.next({ status: 400 })
    expect((await block(formed)).structured).toMatchObject(unknown)
    expect((await block({ ...formed, model: 'nobody' })).structured).toMatchObject(unknown)
    upstream.next({ status: 400 })
    expect(await block({})).not.toHaveProperty('structured')
  })

  test('is there when a stream breaks off, and when its outcome cannot be written', async () => {
    upstream.next({ stopAfter: 2, stop: 'cut', chunks: 5, chunkDelayMs: 2 })
    expect((await lastBlock(formed)).structured).toMatchObject(unknown)
    gateway.spool.before = (type) => {
      if (type === 'request.settled') throw new Error('disk')
    }
    upstream.next({ text: '{}' })
    expect((await lastBlock(formed)).structured).toMatchObject(unknown)
  })

  test('tells what broke it, beside the run of tools that was asked for', async () => {
    upstream.behave({ text: 'no' })
    for (const told of [await block({ ...formed, ...manual }), await lastBlock({ ...formed, ...manual })]) {
      expect(told.structured).toMatchObject({ valid: false, error: expect.any(String) })
      expect(told.tool_run).toMatchObject({ calls: 0, stop_reason: 'error' })
    }
  })
})
