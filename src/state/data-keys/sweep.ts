// Erases data keys without a reference: sealed for a decision that never counted, or of content that was erased.

import { sleep } from '../../lib/event-loop/sleep.ts'
import type { Diagnostics } from '../../lib/process/diagnostics.ts'
import type { LiveChain } from '../live-chain.ts'
import { CONTENT_SUBJECTS, contentKeyIsUsed } from './content-keys.ts'
import type { DataKeyStore } from './store.ts'

/** A decision is sent within seconds of its data key: a key without a row after so long never gets one. */
export const UNUSED_AFTER_MS = 600_000
const EVERY_MS = 60_000
const OWED_EVERY_MS = 5_000

export interface SweepDeps {
  readonly live: Pick<LiveChain, 'requestEnd' | 'condition' | 'next' | 'status' | 'control'>
  readonly dataKeys: Pick<DataKeyStore, 'olderThan' | 'erase' | 'eraseOwed' | 'subjects'>
  readonly diagnostics: Diagnostics
}

/**
 * Erases unused keys. Does nothing unless the fold is known to be at the end of the log: a row that is not folded yet
 * may refer to the key.
 */
export const sweepDataKeys = async ({ live, dataKeys, diagnostics }: SweepDeps): Promise<number> => {
  const candidates = dataKeys.olderThan(UNUSED_AFTER_MS)
  if (candidates.length === 0 || live.status().phase !== 'live' || live.status().degraded !== null) return 0
  const end = await live.requestEnd()
  if (!(await live.condition.until(() => live.next >= end, 1_000)) || live.status().degraded !== null) return 0
  const used = new Set<string>()
  for (const [, { credential }] of live.control.table('providers').rows()) if (credential) used.add(credential.key_id)
  for (const [, { key_id }] of live.control.table('operators').rows()) used.add(key_id)
  const ofContent = new Map(dataKeys.subjects(CONTENT_SUBJECTS).map(({ keyId, subject }) => [keyId, subject]))
  const isUsed = (keyId: string): boolean => {
    const subject = ofContent.get(keyId)
    return subject === undefined ? used.has(keyId) : contentKeyIsUsed(live.control, subject)
  }
  const unused = candidates.filter((keyId) => !isUsed(keyId))
  for (const keyId of unused) await dataKeys.erase(keyId)
  if (unused.length > 0) diagnostics.info('unused_data_keys_erased', { count: unused.length })
  return unused.length
}

/** Sweeps once a minute, and tries owed erasures again every five seconds. Returns how to stop. */
export const startDataKeySweep = (deps: SweepDeps): (() => Promise<void>) => {
  const closing = new AbortController()
  const run = async () => {
    for (let sweptAtMs = performance.now(); ; ) {
      await sleep(OWED_EVERY_MS, closing.signal)
      if (closing.signal.aborted) return
      try {
        await deps.dataKeys.eraseOwed()
        if (performance.now() - sweptAtMs < EVERY_MS) continue
        sweptAtMs = performance.now()
        await sweepDataKeys(deps)
      } catch (error) {
        deps.diagnostics.warn('data_key_sweep_failed', { error })
      }
    }
  }
  const running = run()
  return () => {
    closing.abort()
    return running
  }
}
