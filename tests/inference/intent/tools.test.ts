import { describe, expect, test } from 'bun:test'
import { readIntent } from '../../../src/inference/intent/intent.ts'
import type { GatewayError } from '../../../src/wire/errors.ts'

const messages = [{ role: 'user', content: 'hi' }]
const intentOf = (more: Record<string, unknown>, gatewayExecution = false) => {
  const body = { model: 'small', messages, ...more }
  return readIntent(JSON.stringify(body), body, new Headers(), gatewayExecution)
}
const refusalOf = (more: Record<string, unknown>, gatewayExecution = false): GatewayError => {
  try {
    intentOf(more, gatewayExecution)
  } catch (error) {
    return error as GatewayError
  }
  throw new Error('it was accepted')
}
const tool = (fields: Record<string, unknown>) => ({ type: 'function', function: fields })
const look = tool({ name: 'look' })
const needsOf = (more: Record<string, unknown>) =>
  intentOf(more).requirements.map(({ capability, param }) => `${capability} for ${param}`)

describe('a malformed declaration names the tool and the member', () => {
  const cases: [declared: Record<string, unknown>, named: string, param: string][] = [
    [tool({ name: 'bad name' }), 'bad name', 'function.name'],
    [tool({ name: 'x'.repeat(129) }), 'x'.repeat(64), 'function.name'],
    [tool({ name: 'look', parameters: 'none' }), 'look', 'function.parameters'],
    [tool({ name: 'look', parameters: { type: 'array' } }), 'look', 'function.parameters.type'],
    [tool({ name: 'look', parameters: { properties: [] } }), 'look', 'function.parameters.properties'],
    [tool({ name: 'look', parameters: { required: ['a', 1] } }), 'look', 'function.parameters.required'],
    [tool({ name: 'look', description: 7 }), 'look', 'function.description'],
    [tool({ name: 'look', strict: 'yes' }), 'look', 'function.strict'],
    [{ function: { name: 'look' } }, 'look', 'type'],
    [{ type: 'custom', custom: { name: '' } }, 'tools[1]', 'custom.name'],
  ]
  test.each(cases)('%j', (declared, named, param) => {
    const error = refusalOf({ tools: [tool({ name: 'fine' }), declared] })
    expect(error).toMatchObject({ code: 'invalid_request', status: 400, param: `tools[1].${param}` })
    expect(error.message).toContain(named)
  })

  test('the older functions are checked alike', () => {
    expect(refusalOf({ functions: {} }).param).toBe('functions')
    expect(refusalOf({ functions: [{ name: 'bad name' }] })).toMatchObject({ param: 'functions[0].name' })
    expect(refusalOf({ functions: [{ name: 'a' }, { name: 'a' }] }).message).toContain('"a" is declared twice')
  })
})

describe('a choice', () => {
  test.each([
    [{ tool_choice: { type: 'function', function: { name: 'other' } } }, 'tool_choice.function.name'],
    [{ tool_choice: { type: 'custom', custom: { name: 'other' } } }, 'tool_choice.custom.name'],
    [
      {
        tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [look, tool({ name: 'other' })] } },
      },
      'tool_choice.allowed_tools.tools[1].function.name',
    ],
    [{ tool_choice: { type: 'allowed_tools', allowed_tools: { tools: 1 } } }, 'tool_choice.allowed_tools.tools'],
    [{ tool_choice: { type: 'function' } }, 'tool_choice.function.name'],
    [{ tool_choice: 'look' }, 'tool_choice'],
    [{ tool_choice: 7 }, 'tool_choice'],
    [{ tools: [], tool_choice: 'required' }, 'tool_choice'],
    [{ functions: [{ name: 'look' }], function_call: { name: 'other' } }, 'function_call.name'],
    [{ functions: [{ name: 'look' }], function_call: 'look' }, 'function_call'],
  ])('of what is not there is refused: %j', (more, param) => {
    expect(refusalOf({ tools: [look], ...more })).toMatchObject({ code: 'invalid_request', param })
  })

  test.each([
    { tool_choice: 'none' },
    { tool_choice: 'required' },
    { tool_choice: { type: 'function', function: { name: 'look' } } },
    { tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [look] } } },
    { tool_choice: { type: 'web_search' } },
    { tools: [{ type: 'web_search' }], tool_choice: 'required' },
    { functions: [{ name: 'look' }], function_call: { name: 'look' } },
  ])('of what is there is accepted: %j', (more) => {
    expect(() => intentOf({ tools: [look], ...more })).not.toThrow()
  })
})

// docs/behaviour.md: "Capabilities"
test('every field of tools asks for the capability, and is named when it is missing', () => {
  expect(needsOf({ tools: [look] })).toEqual(['tools for tools'])
  expect(needsOf({ parallel_tool_calls: false })).toEqual([])
  expect(needsOf({ tools: [look], tool_choice: 'auto', parallel_tool_calls: true })).toEqual([
    'tools for tools',
    'parallel_tool for parallel_tool_calls',
  ])
  expect(needsOf({ tool_choice: 'none' })).toEqual(['tools for tool_choice'])
  expect(needsOf({ parallel_tool_calls: true })).toEqual([
    'tools for parallel_tool_calls',
    'parallel_tool for parallel_tool_calls',
  ])
  expect(needsOf({ functions: [{ name: 'look' }] })).toEqual(['tools for functions'])
  expect(needsOf({ function_call: 'auto' })).toEqual(['tools for function_call'])
  expect(needsOf({ tools: [], tool_choice: null })).toEqual([])
})

// docs/behaviour.md: "Tools"
describe('tool_execution', () => {
  const automatic = { tool_execution: { mode: 'automatic' } }

  test('S33: is clamped to manual and never sent on', () => {
    for (const on of [false, true]) {
      const intent = intentOf(automatic, on)
      expect(intent).toMatchObject({ toolExecution: 'manual', shaping: ['tool_execution clamped to manual'] })
      expect(intent.raw).not.toContain('tool_execution')
    }
    expect(intentOf({ tool_execution: {} })).toMatchObject({ toolExecution: 'manual', shaping: [] })
    expect(intentOf({ ...automatic, stream: true })).toMatchObject({ toolExecution: 'manual' })
  })

  test('automatic with a stream is refused where the gateway may run tools', () => {
    expect(refusalOf({ ...automatic, stream: true }, true)).toMatchObject({
      code: 'invalid_request',
      status: 400,
      param: 'tool_execution.mode',
    })
    expect(() => intentOf({ tool_execution: { mode: 'manual' }, stream: true }, true)).not.toThrow()
  })

  test.each([[7], ['automatic'], [[]], [{ mode: 'auto' }], [{ mode: true }]])('%j is refused', (tool_execution) => {
    expect(refusalOf({ tool_execution }).param).toStartWith('tool_execution')
  })
})
