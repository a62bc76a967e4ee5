// What people paste as an address: refused with what to write instead.
import { describe, expect, test } from 'bun:test'
import { baseUrlError } from '../../../src/domain/registry/base-url.ts'
import { decideProvider } from '../../../src/domain/registry/provider.ts'
import { newWorld, providerCreated } from '../world.ts'

const PASTED: Readonly<Record<string, string>> = {
  'https://api.openai.com/v1/chat/completions': 'https://api.openai.com/v1',
  'https://api.openai.com/v1/chat/completions/': 'https://api.openai.com/v1',
  'https://h.example/Chat/Completions': 'https://h.example',
  'https://h.example/v1/completions': 'https://h.example/v1',
  'https://h.example/v1/responses': 'https://h.example/v1',
  'https://api.anthropic.com/v1/messages': 'https://api.anthropic.com/v1',
  'https://api.cohere.com/v2/chat': 'https://api.cohere.com/v2',
  'http://h.example:11434/api/chat': 'http://h.example:11434',
  'https://g.example/v1beta/models/gemini-3:streamGenerateContent': 'https://g.example/v1beta',
  'https://b.example/model/us.claude:0/converse-stream': 'https://b.example',
  'https://h.example/v1?version=2': 'https://h.example/v1',
  'https://h.example/v1?': 'https://h.example/v1',
  'https://h.example/v1#top': 'https://h.example/v1',
  'https://h.example/v1#': 'https://h.example/v1',
  'https://user:pw@h.example/v1': 'https://h.example/v1',
  'https://user@h.example/v1/chat/completions?key=sk-1': 'https://h.example/v1',
}

describe('a base URL with more than what stands before the operation', () => {
  for (const [pasted, right] of Object.entries(PASTED)) {
    test(`${pasted} is refused, and ${right} is not`, () => {
      const flaw = baseUrlError(pasted)
      expect(flaw).toContain('base_url')
      expect(flaw).toContain(`write "${right}"`)
      expect(flaw).not.toMatch(/pw|sk-1/)
      expect(baseUrlError(right)).toBeNull()
    })
  }

  test('the version of Azure in a query is an option', () => {
    const base = 'https://r.openai.azure.com/openai/deployments/gpt'
    expect(baseUrlError(`${base}/chat/completions?api-version=2024-10-21`)).toContain(
      `write "${base}" and options {"api_version": "2024-10-21"}`,
    )
  })
})

test.each([
  'https://api.openai.com/v1',
  'https://api.openai.com/v1/',
  'https://r.services.ai.azure.com/models',
  'https://h.example/chat',
  'https://h.example/messages-proxy/v1',
  'https://generativelanguage.googleapis.com/v1beta',
  'https://bedrock-runtime.{region}.amazonaws.com',
  'http://localhost:11434/api',
])('%s is a base URL', (text) => {
  expect(baseUrlError(text)).toBeNull()
})

test('an address that an earlier build took does not hold up other changes of its provider', () => {
  const base_url = 'https://r.openai.azure.com/openai/v1?api-version=preview'
  const created = providerCreated('prov_a')
  const { state } = newWorld([{ ...created, data: { ...created.data, base_url } }])
  const change = (more: object) =>
    decideProvider(state, { do: 'change', id: 'prov_a', managed_by: 'api', ...more }).map(({ data }) => data)
  expect(change({ base_url, weight: 2 })).toMatchObject([{ weight: 2 }])
  expect(() => change({ base_url: `${base_url}2` })).toThrow('base_url')
})
