// Fills a data folder with a registry of a given size, as decisions in its log. Through the API a million keys would
// take hours.

import { decideChain } from '../../../src/domain/chain.ts'
import { ControlState, EVENT_VERSION } from '../../../src/domain/control.ts'
import { decisionMacKey, type EventRecord } from '../../../src/domain/kernel/decision.ts'
import { POLICY_DEFAULTS } from '../../../src/domain/steering/policy.ts'
import { sha256Hex } from '../../../src/lib/crypto/digest.ts'
import { newId } from '../../../src/lib/crypto/ids.ts'
import { TOPICS } from '../../../src/log/topics.ts'
import { keyIssued, modelCreated, providerCreated, tenantCreated } from '../../domain/world.ts'
import { MASTER_KEY } from '../../services/cluster.ts'
import { MARK, numbered } from '../load.ts'
import { writeDecisions } from '../long-logs/written-decisions.ts'

export interface WorldSize {
  readonly models: number
  readonly keys: number
  readonly policies: number
  /** Rows of the model that requests name where they name none of many: each of a provider of its own. */
  readonly candidates: number
}

/** How requests name one of many; the load writes a number over the mark. */
export const NAMES = {
  model: `bench-model-${MARK}`,
  key: `gw_live_scale_${MARK}`,
  policy: `policy-${MARK}`,
} as const
const named = (name: string, number: number) => name.replace(MARK, numbered(number))

const PROVIDERS = 5
const TENANT = 'ten_scale'
/** Streams that are held open for a row receive nothing in the meantime. */
const LONG_SILENCE = { stream_idle_ms: 600_000 }
/** Events in a decision: what fits into 64 KiB. */
const TOGETHER = 80

function* events(size: WorldSize, origin: string): Generator<EventRecord> {
  yield tenantCreated(TENANT, 'scale')
  for (let i = 0; i < PROVIDERS; i++)
    yield providerCreated(`prov_${i}`, `bench-${i}`, { kind: 'openai_compatible', base_url: `${origin}/v1` })
  const prices = { upstream_model: 'bench-model', input_cost_per_million: 1, output_cost_per_million: 2 }
  const able = { max_output_tokens: 1_000, capabilities: ['chat', 'streaming'] }
  const model = (name: string, i: number) =>
    modelCreated(newId('mod'), `prov_${i % PROVIDERS}`, { name, ...prices, ...able })
  yield model('bench-model', 0)
  for (let i = 1; i < size.candidates; i++) {
    const provider = `prov_wide_${i}`
    yield providerCreated(provider, `wide-${i}`, { kind: 'openai_compatible', base_url: `${origin}/v1` })
    yield modelCreated(newId('mod'), provider, { name: 'bench-model', ...prices, ...able })
  }
  for (let i = 0; i < size.models; i++) yield model(named(NAMES.model, i), i)
  for (let i = 0; i < size.policies; i++)
    yield {
      type: 'policy.created',
      data: {
        ...{ id: newId('pol'), tenant_id: null, name: named(NAMES.policy, i), managed_by: 'api' },
        ...{ ...POLICY_DEFAULTS, strategy: 'priority', max_cost_usd: 1 + i, timeouts: LONG_SILENCE },
      },
    }
  for (let i = 0; i < size.keys; i++)
    yield keyIssued(newId('key'), TENANT, { name: `key ${i}`, digest: sha256Hex(named(NAMES.key, i)) })
}

function* decisions(size: WorldSize, origin: string): Generator<readonly EventRecord[]> {
  const many = Object.values(TOPICS).filter((topic) => topic.partitions === 'many')
  const partitions = Object.fromEntries(many.map(({ name }) => [name, 1]))
  const first = { do: 'start', chain_id: newId('chain'), partitions, version: EVENT_VERSION } as const
  yield decideChain(new ControlState(), first)
  let together: EventRecord[] = []
  for (const event of events(size, origin)) {
    together.push(event)
    if (together.length < TOGETHER) continue
    yield together
    together = []
  }
  if (together.length > 0) yield together
}

/** Settings of a gateway on such a folder. */
export const worldSettings = { security: { master_key: MASTER_KEY }, bootstrap: {} }

export const fillWorld = async (dataDir: string, size: WorldSize, origin: string): Promise<void> => {
  const macKey = decisionMacKey(new Uint8Array(Buffer.from(MASTER_KEY, 'base64')))
  await writeDecisions(dataDir, decisions(size, origin), macKey)
}
