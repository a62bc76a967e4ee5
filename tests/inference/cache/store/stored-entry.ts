// Entries for tests, sealed under a key of the test.
import { randomBytes } from 'node:crypto'
import {
  type EntryContent,
  type EntryFacts,
  type EntryKeys,
  packEntry,
  sealEntry,
} from '../../../../src/inference/cache/store/entry.ts'
import { openBytes, sealBytes } from '../../../../src/state/data-keys/crypto.ts'

export const NOW_MS = 1_800_000_000_000

export const FACTS: EntryFacts = {
  tenantId: 'ten_a',
  mode: 'exact',
  model: 'gpt-small',
  provider: 'acme',
  endpoint: null,
  keyId: 'key_1',
  ruleId: 'rule_1',
  originId: 'req_1',
  createdMs: NOW_MS,
  expiresMs: NOW_MS + 60_000,
  height: 3,
}

export const CONTENT: EntryContent = {
  answer: {
    form: 'whole',
    json: JSON.stringify({ id: 'a', choices: [{ message: { content: 'hello '.repeat(200) } }] }),
  },
  finishReason: 'stop',
  usage: {
    promptTokens: 3,
    completionTokens: 4,
    cachedPromptTokens: 1,
    reasoningTokens: null,
    raw: { prompt_tokens: 3 },
  },
  promptTokens: 3,
  completionTokens: 4,
  costNanoUsd: 1_000,
  latencyMs: 800,
  modelId: 'mod_1',
  text: null,
  turns: [],
}

export const keyOf = (number: number): string => new Bun.CryptoHasher('sha256').update(String(number)).digest('hex')

/** Content keys of tenants: made with the first use, gone with `erase`. */
export class TestKeys implements EntryKeys {
  readonly #keys = new Map<string, Uint8Array>()

  async sealBytes(tenantId: string, about: string, content: Uint8Array) {
    const key = this.#keys.get(tenantId) ?? new Uint8Array(randomBytes(32))
    this.#keys.set(tenantId, key)
    const bound = JSON.stringify([tenantId, about])
    return { keyId: `dek_${tenantId}`, sealed: sealBytes(key, `dek_${tenantId}`, bound, content) }
  }

  openBytes(tenantId: string, about: string, keyId: string, sealed: Uint8Array): Uint8Array | null {
    const key = this.#keys.get(keyId.slice('dek_'.length))
    return key === undefined ? null : openBytes(key, keyId, JSON.stringify([tenantId, about]), sealed)
  }

  erase(tenantId: string): void {
    this.#keys.delete(tenantId)
  }
}

export const sealed = (keys: EntryKeys, key: string, facts: EntryFacts = FACTS, content: EntryContent = CONTENT) =>
  sealEntry(keys, key, facts, packEntry(content, 1_000_000)!)
