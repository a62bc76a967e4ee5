// A 404 of a provider names the field to blame: the model, where it is the model that the provider does not know.
import { describe, expect, test } from 'bun:test'
import { KINDS } from '../../../src/providers/kinds.ts'

const paramOf = (kind: string, body: unknown) => {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const error = KINDS.get(kind)!.failure(404, text, new Headers())
  expect(error.code).toBe('not_found')
  return error.param
}

describe('a model that the provider does not know', () => {
  const said: Record<string, unknown> = {
    openai: {
      error: { message: 'The model `x` does not exist', type: 'invalid_request_error', code: 'model_not_found' },
    },
    azure_openai: { error: { code: 'DeploymentNotFound', message: 'It does not exist.' } },
    anthropic: { type: 'error', error: { type: 'not_found_error', message: 'model: claude-9' } },
    gemini: { error: { code: 404, message: 'models/gemini-9 is not found', status: 'NOT_FOUND' } },
    cohere: { message: "model 'command-z' not found" },
    ollama: { error: "model 'llama9' not found" },
    vllm: { error: { message: 'The model `x` does not exist.', type: 'NotFoundError', param: null, code: 404 } },
  }
  for (const [kind, body] of Object.entries(said))
    test(`of ${kind} blames \`model\``, () => {
      expect(paramOf(kind, body)).toBe('model')
    })
})

test('a route that is not there is no field’s fault, and what the provider names itself stands', () => {
  expect(paramOf('openai_compatible', '404 page not found')).toBeNull()
  expect(
    paramOf('openrouter', { error: { code: 404, message: 'No endpoints found that support tool use.' } }),
  ).toBeNull()
  expect(paramOf('openai', { error: { message: 'no such model', param: 'voice' } })).toBe('voice')
})
