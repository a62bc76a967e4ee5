// The first decision of a chain: names it and fixes the partition counts. `gateway topics --init` makes it on Kafka,
// the first start embedded.

import { decideChain } from '../../domain/chain.ts'
import { ControlState, EVENT_VERSION } from '../../domain/control.ts'
import { GENESIS, judge, writeDecision } from '../../domain/kernel/decision.ts'
import { sleep } from '../../lib/event-loop/sleep.ts'
import { type EventLog, IndefiniteAppend, LogDamaged, LogUnavailable } from '../../log/port.ts'
import { CONTROL } from '../fold.ts'
import { ControlLogRefused } from './guards.ts'

export interface StartChainDeps {
  readonly log: EventLog
  /** `decisionMacKey` of the master key. */
  readonly macKey: Uint8Array
  /** Used only when there is no chain yet. */
  readonly chainId: string
  readonly nowMs: () => number
  /** Topic name -> number of partitions, for the topics that have many. */
  readonly partitions: Readonly<Record<string, number>>
  readonly signal?: AbortSignal
}

/**
 * Makes sure that the control topic holds a chain, and returns its id: of several that start one at once the first in
 * the log wins, for all. Waits while the log cannot be reached. Throws LogDamaged when it cannot be read, and
 * ControlLogRefused when the topic holds records, but none of this master key.
 */
export const startChain = async (deps: StartChainDeps): Promise<{ chainId: string; started: boolean }> => {
  const { log, macKey, nowMs, partitions } = deps
  const signal = deps.signal ?? new AbortController().signal
  for (;;) {
    try {
      const existing = await firstOf(deps, signal)
      if (existing !== null) return { chainId: existing, started: existing === deps.chainId }
      const decision = writeDecision(
        {
          parent: GENESIS,
          at: new Date(nowMs()).toISOString(),
          actor: { type: 'system', id: 'genesis' },
          cause: null,
          v: 1,
          events: decideChain(new ControlState(), {
            do: 'start',
            chain_id: deps.chainId,
            partitions,
            version: EVENT_VERSION,
          }),
        },
        macKey,
      )
      await log.append(CONTROL, 0, [{ key: null, value: decision.bytes }], signal)
    } catch (error) {
      if (error instanceof LogDamaged) throw error
      // Unknown or not written: reading shows it, and a second copy loses.
      if (!(error instanceof IndefiniteAppend || error instanceof LogUnavailable)) throw error
      await sleep(250, signal)
    }
    signal.throwIfAborted()
  }
}

/** The chain that the topic holds, null when it holds none. */
const firstOf = async ({ log, macKey }: StartChainDeps, signal: AbortSignal): Promise<string | null> => {
  const end = await log.end(CONTROL, 0)
  if (end === 0) return null
  let forged = 0
  for await (const batch of log.read(CONTROL, 0, 0, signal)) {
    for (const record of batch) {
      const verdict = record.value === null ? null : judge(GENESIS, record.value, macKey)
      if (verdict?.kind === 'forged') forged += 1
      if (verdict?.kind !== 'counts' || !('decision' in verdict)) continue
      const [started] = verdict.decision.events
      if (started?.type === 'chain.started') return String(started.data.chain_id)
      throw new ControlLogRefused(
        `the first decision of ${CONTROL} names no chain: the topic is not one of ours, or was restored in part`,
      )
    }
    if ((batch.at(-1)?.offset ?? 0) + 1 >= end) break
  }
  signal.throwIfAborted()
  if (forged > 0) {
    throw new ControlLogRefused(
      `${CONTROL} holds records, but none was written with this master key: set security.master_key to the one of ` +
        'this installation',
    )
  }
  return null
}
