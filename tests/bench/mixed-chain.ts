// A chain as it grows in use, for benches of long logs: tenants, providers and models first, then mostly keys, a part of them renamed, rotated and
// revoked, prices of models, tenants renamed; a quarter of it asked for with an `Idempotency-Key`.
import { type Decision, type EventRecord, GENESIS, writeDecision } from '../../src/domain/decision.ts'
import { sha256Hex } from '../../src/lib/digest.ts'
import { embeddedLog } from '../../src/log/embedded.ts'
import { CONTROL } from '../../src/state/fold.ts'
import { modelCreated, providerCreated, tenantCreated } from '../domain/world.ts'

const TENANTS = 1_000
const MODELS = 200
const FIRST_KEY = 1 + TENANTS + 1 + MODELS
/** Log time between two decisions: a day holds 2,880 of them, and as long are idempotent repeats remembered. */
const APART_MS = 30_000
const START_MS = Date.UTC(2026, 0, 1)
const BATCH = 256

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
  if (index === TENANTS + 1) return providerCreated('prov_1')
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

/** Writes so many decisions to the embedded log of a folder. */
export const writeMixedChain = async (dataDir: string, count: number, macKey: Uint8Array): Promise<void> => {
  let atMs = START_MS
  const log = embeddedLog({ dataDir, nowMs: () => atMs })
  let parent = GENESIS
  for (let index = 0; index < count; ) {
    const records: { key: null; value: Uint8Array }[] = []
    for (; index < count && records.length < BATCH; index++) {
      const cause = index % 4 === 0 ? { id: sha256Hex(`cause ${index}`), body: sha256Hex(`body ${index}`) } : null
      const at = new Date(START_MS + index * APART_MS).toISOString()
      const decision: Decision = {
        parent,
        at,
        actor: { type: 'key', id: keyId(0) },
        by: 'ins_bench',
        cause,
        v: 1,
        events: [eventOf(index)],
      }
      const { bytes, id } = writeDecision(decision, macKey)
      parent = id
      records.push({ key: null, value: bytes })
    }
    atMs = START_MS + index * APART_MS
    await log.append(CONTROL, 0, records)
  }
  await log.close()
}
