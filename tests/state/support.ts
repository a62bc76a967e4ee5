// What the tests of the chain share: a log in memory, instances on it, commands about tenants.

import { decideTenant } from '../../src/domain/access/tenant.ts'
import { decisionMacKey } from '../../src/domain/kernel/decision.ts'
import type { Diagnostics } from '../../src/lib/process/diagnostics.ts'
import type { EventLog } from '../../src/log/port.ts'
import { type CommitDeps, type CommitQueue, createCommit } from '../../src/state/commit/queue.ts'
import { startChain } from '../../src/state/live/genesis.ts'
import { openLiveState } from '../../src/state/live/live.ts'
import type { LiveChain, LiveDeps } from '../../src/state/live-chain.ts'
import type { CommitRequest } from '../../src/state/port.ts'

export const macKey = decisionMacKey(new Uint8Array(32).fill(7))
export const nowMs = () => Date.now()
export const actor = { type: 'system', id: 'test' } as const

export const quiet: Diagnostics = { debug() {}, info() {}, warn() {}, error() {} }

/** Diagnostics that can be asked what was said. */
export const listening = () => {
  const said: { event: string; fields: Readonly<Record<string, unknown>> }[] = []
  const hear = (event: string, fields: Readonly<Record<string, unknown>> = {}) => void said.push({ event, fields })
  return { said, diagnostics: { debug: hear, info: hear, warn: hear, error: hear } satisfies Diagnostics }
}

export interface Instance {
  readonly name: string
  readonly live: LiveChain
  readonly queue: CommitQueue
  close(): Promise<void>
}

export const openInstance = async (
  name: string,
  log: EventLog,
  more: Partial<LiveDeps> & Pick<CommitDeps, 'limitMs' | 'lookMs' | 'retryMs'> = {},
): Promise<Instance> => {
  const { limitMs, lookMs, retryMs, ...rest } = more
  const live = await openLiveState({ log, macKey, dataDir: null, nowMs, diagnostics: quiet, ...rest })
  const queue = createCommit({ log, live, macKey, nowMs, diagnostics: quiet, instance: name, limitMs, lookMs, retryMs })
  return {
    name,
    live,
    queue,
    async close() {
      await queue.close()
      await live.close()
    },
  }
}

export const begin = (log: EventLog, chainId = 'chain_test') =>
  startChain({ log, macKey, chainId, nowMs, partitions: { 'gateway.requests.v1': 3 } })

export const createTenant = (slug: string, more: Partial<CommitRequest> = {}): CommitRequest => ({
  actor,
  decide: (state) =>
    decideTenant(state, { do: 'create', id: `ten_${slug}`, slug, name: slug, plan: null, managed_by: 'api' }),
  ...more,
})

export const renameTenant = (slug: string, name: string): CommitRequest => ({
  actor,
  decide: (state) => decideTenant(state, { do: 'replace', id: `ten_${slug}`, name, plan: null, managed_by: 'api' }),
})

export const deleteTenant = (slug: string): CommitRequest => ({
  actor,
  decide: (state) => decideTenant(state, { do: 'delete', id: `ten_${slug}`, force: true, nowMs: nowMs() }),
})
