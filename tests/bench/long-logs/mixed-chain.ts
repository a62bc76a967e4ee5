// A chain with the usual mix of decisions, for benches of long logs. Tenants, providers and models come first, then
// mostly keys (some of them renamed, rotated or revoked), prices of models, and renamed tenants. A quarter of the
// decisions carry an `Idempotency-Key`. Between them stands what several instances leave in a log: lost decisions and
// turns.
import { type Decision, type EventRecord, GENESIS, writeDecision } from '../../../src/domain/kernel/decision.ts'
import { sha256Hex } from '../../../src/lib/crypto/digest.ts'
import { MAX_APPEND_RECORDS } from '../../../src/log/append-limits.ts'
import { embeddedLog } from '../../../src/log/embedded/log.ts'
import type { EventLog, NewRecord } from '../../../src/log/port.ts'
import { CONTROL } from '../../../src/state/fold.ts'
import { writeTurn } from '../../../src/state/write-turns.ts'
import { modelCreated, providerCreated, tenantCreated } from '../../domain/world.ts'

const TENANTS = 1_000
const MODELS = 200
const FIRST_KEY = 1 + TENANTS + 1 + MODELS
/** Log time between two decisions: a day holds 2,880 of them, and as long are idempotent repeats remembered. */
export const APART_MS = 30_000
const START_MS = Date.UTC(2026, 0, 1)
/**
 * One decision in so many has a concurrent one that lost. After one in so many stands a turn, requested by an instance
 * that kept losing.
 */
const LOST_EVERY = 100
const TURN_EVERY = 400
/** A decision, one that lost to it, a turn. */
const MOST_FOR_ONE = 3

const keyId = (index: number) => `key_0198a7f2-1c3d-7e4f-8a9b-${index.toString(16).padStart(12, '0')}`

const keyIssued = (index: number): EventRecord => ({
  type: 'api_key.issued',
  data: {
    id: keyId(index),
    tenant_id: `ten_${index % TENANTS}`,
    name: `key ${index}`,
    scopes: ['inference'],
    digest: sha256Hex(`secret ${index}`),
    expires_at: null,
    routing_policy_id: null,
    rate_limits: null,
    managed_by: 'api',
  },
})

/** The event of the decision of this number. Half of the later ones are about things that are there. */
const eventOf = (index: number): EventRecord => {
  if (index === 0)
    return { type: 'chain.started', data: { chain_id: 'chain_bench', partitions: { 'gateway.requests.v1': 12 } } }
  if (index <= TENANTS) return tenantCreated(`ten_${index - 1}`, `tenant-${index}`)
  // A provider that can be called without a secret, so that a gateway on this chain is ready.
  if (index === TENANTS + 1) return providerCreated('prov_1', 'prov_1', { kind: 'sandbox', base_url: null })
  if (index < FIRST_KEY) return modelCreated(`mod_${index}`, 'prov_1')
  const older = Math.max(FIRST_KEY, index - (index % 7_919) - (index % 10))
  const what = index % 10
  if (what === 5) return { type: 'api_key.changed', data: { id: keyId(older), name: `renamed ${index}` } }
  if (what === 6)
    return { type: 'api_key.rotated', data: { id: keyId(older + 1), digest: sha256Hex(`rotated ${index}`) } }
  if (what === 7) return { type: 'api_key.revoked', data: { id: keyId(older + 2) } }
  if (what === 8)
    return { type: 'tenant.replaced', data: { id: `ten_${index % TENANTS}`, name: `name ${index}`, plan: null } }
  if (what === 9)
    return { type: 'model.changed', data: { id: `mod_${TENANTS + 2 + (index % MODELS)}`, priority: index } }
  return keyIssued(index)
}

/**
 * Records that follow the decision of this number in the log without being part of the chain: what races of instances
 * leave there.
 */
const besides = (index: number, decision: Decision, macKey: Uint8Array): Uint8Array[] => {
  const found: Uint8Array[] = []
  // On the same parent as the one that won.
  if (index % LOST_EVERY === LOST_EVERY - 1)
    found.push(writeDecision({ ...decision, by: 'ins_other', cause: null }, macKey).bytes)
  if (index % TURN_EVERY === TURN_EVERY - 1)
    found.push(writeTurn({ instance: 'ins_other', nonce: `turn-${index}` }, macKey))
  return found
}

export interface MixedChain {
  readonly log: EventLog
  /** What is there already: so many decisions, the last with this id. */
  readonly from: number
  readonly parent: string
  /** So many it holds at the end. */
  readonly count: number
  readonly macKey: Uint8Array
  /** When the first was decided. */
  readonly startMs: number
  /** Called before each append with the time that has come by its end. */
  readonly passing?: (atMs: number) => void
}

export const appendMixedChain = async (chain: MixedChain): Promise<void> => {
  const { log, count, macKey, startMs, passing } = chain
  let { parent, from: index } = chain
  while (index < count) {
    const records: NewRecord[] = []
    for (; index < count && records.length <= MAX_APPEND_RECORDS - MOST_FOR_ONE; index++) {
      const cause = index % 4 === 0 ? { id: sha256Hex(`cause ${index}`), body: sha256Hex(`body ${index}`) } : null
      const at = new Date(startMs + index * APART_MS).toISOString()
      const actor = { type: 'key', id: keyId(0) } as const
      const decision: Decision = { parent, at, actor, by: 'ins_bench', cause, v: 1, events: [eventOf(index)] }
      const { bytes, id } = writeDecision(decision, macKey)
      parent = id
      for (const value of [bytes, ...besides(index, decision, macKey)]) records.push({ key: null, value })
    }
    passing?.(startMs + index * APART_MS)
    await log.append(CONTROL, 0, records)
  }
}

/** Writes so many decisions to the embedded log of a folder, whose time passes with theirs. */
export const writeMixedChain = async (dataDir: string, count: number, macKey: Uint8Array): Promise<void> => {
  let atMs = START_MS
  const log = embeddedLog({ dataDir, nowMs: () => atMs })
  const passing = (nextMs: number) => {
    atMs = nextMs
  }
  await appendMixedChain({ log, from: 0, parent: GENESIS, count, macKey, startMs: START_MS, passing })
  await log.close()
}
