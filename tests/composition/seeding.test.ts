// What a start says of providers that have no credential, once everything is seeded.
import { expect, test } from 'bun:test'
import { seedUntilDone } from '../../src/composition/seeding.ts'
import { KIND_TABLE } from '../../src/composition/settings.ts'
import { loadConfig } from '../../src/config/schema.ts'
import type { CommitQueue } from '../../src/state/commit/queue.ts'
import type { LiveChain } from '../../src/state/live-chain.ts'
import { modelFacts } from '../../src/upkeep/models/model-facts.ts'
import { type FoldingCommit, foldingCommit } from '../http/admin/world/folding-commit.ts'

const NO_PRICE = { contextWindow: null, input: null, output: null, cachedInput: null }
const FILE = `
bootstrap:
  providers:
    - { name: forgotten, kind: openai, api_key_env: PROVIDER_FORGOTTEN, models: [{ name: a }] }
    - { name: empty, kind: anthropic, api_key_env: PROVIDER_EMPTY }
    - { name: bare, kind: cohere }
    - { name: off, kind: groq, enabled: false }
    - { name: given, kind: openai, api_key_env: PROVIDER_GIVEN }
    - { name: local, kind: ollama }
`
const GIVEN = { PROVIDER_EMPTY: '', PROVIDER_GIVEN: 'sk-1' }

/** The notes of one start. */
const started = async (log: FoldingCommit, env: Record<string, string>): Promise<string[]> => {
  const notes: string[] = []
  const note = (_: string, fields?: object) => notes.push(String((fields as { note: string }).note))
  await seedUntilDone({
    config: loadConfig({ file: { name: 'gateway.yaml', text: FILE }, env: {} }).config,
    env,
    control: {
      live: Object.assign(log.live, { ready: async () => {} }) as unknown as LiveChain,
      commits: { commit: log.commit, close: async () => {} } as unknown as CommitQueue,
    },
    kindTable: KIND_TABLE,
    modelCatalogue: {
      list: async () => [],
      factsOfListed: async (_, listed) => modelFacts(listed, NO_PRICE, ['chat']),
      factsOf: async () => modelFacts(null, NO_PRICE, ['chat']),
    },
    diagnostics: { debug: note, info: note, warn: note, error: note },
  })
  return notes
}

test('each active provider without a credential is named, with its variable, until it has one', async () => {
  const log = foldingCommit(() => Date.UTC(2026, 10, 20))
  const providerOf = (name: string) => [...log.state.table('providers').rows()].find(([, row]) => row.name === name)![1]
  const notes = await started(log, GIVEN)
  expect(notes.toSorted()).toEqual([
    expect.stringMatching(/^the provider "bare" has no credential.* name a variable in its api_key_env, or PUT /),
    expect.stringMatching(/^the provider "empty" has no credential.* set PROVIDER_EMPTY before the start, or PUT /),
    `the provider "forgotten" has no credential, so none of its models can be used: set PROVIDER_FORGOTTEN before the start, or PUT /admin/v1/providers/${providerOf('forgotten').id}/credential`,
  ])

  const data = {
    provider_id: providerOf('bare').id,
    key_id: 'dek_1',
    sealed: 'x',
    name: null,
    hint: 'x',
    replaces: false,
  }
  log.apply([{ type: 'credential.sealed', data }])
  expect(await started(log, { ...GIVEN, PROVIDER_EMPTY: 'sk-2', PROVIDER_FORGOTTEN: 'sk-3' })).toEqual([])
})
