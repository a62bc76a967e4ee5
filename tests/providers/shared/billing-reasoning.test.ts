// Which models may be billed for what nobody sees.
import { expect, test } from 'bun:test'
import { reasonsInvisibly } from '../../../src/providers/shared/billing.ts'

test('models that reason unseen, by name', () => {
  const names = [
    ...[
      'o3',
      'openai/o1-pro',
      'gpt-5',
      'gpt-5.1-codex',
      'codex-mini-latest',
      'openai/codex-mini',
      'o4-mini-deep-research',
    ],
    ...[
      'gemini-2.5-pro',
      'gemini-pro-latest',
      'google/gemini-3-flash',
      'grok-code-fast-1',
      'x-ai/grok-4',
      'sonar-deep-research',
    ],
    ...[
      'sonar-reasoning-pro',
      'openrouter/auto',
      'deepseek-reasoner',
      'claude-opus-5',
      'anthropic.claude-sonnet-5-v1:0',
    ],
  ]
  for (const name of names) expect([name, reasonsInvisibly({}, name, 'openai_compatible')]).toEqual([name, true])
})

test('models that do not', () => {
  const names = [
    ...['gpt-4o', 'gpt-4.1-mini', 'gpt-5-chat-latest', 'gpt-35-turbo', 'openai/gpt-3.5-turbo', 'claude-opus-4-6', 'm'],
    ...['gemini-2.0-flash', 'sonar-pro', 'llama-3.3-70b', 'deepseek-chat', 'automatic'],
  ]
  for (const name of names) expect([name, reasonsInvisibly({}, name, 'openai')]).toEqual([name, false])
})

test('a deployment of Azure has the name that its operator gave to it: only one of a plain family is known to show all', () => {
  for (const name of ['my-azure-deployment', 'prod', 'o3'])
    expect([name, reasonsInvisibly({}, name, 'azure_openai')]).toEqual([name, true])
  for (const name of ['gpt-4o', 'gpt-4o-prod', 'gpt-35-turbo', 'gpt-5-chat', 'mistral-large'])
    expect([name, reasonsInvisibly({}, name, 'azure_openai')]).toEqual([name, false])
})

test('what a client asks for', () => {
  for (const body of [{ reasoning_effort: 'low' }, { thinking: { type: 'enabled' } }, { audio: { voice: 'alloy' } }])
    expect(reasonsInvisibly(body, 'gpt-4o', 'openai')).toBe(true)
  for (const body of [{ reasoning_effort: 'none' }, { thinking: { type: 'disabled' } }, {}])
    expect(reasonsInvisibly(body, 'gpt-4o', 'openai')).toBe(false)
})
