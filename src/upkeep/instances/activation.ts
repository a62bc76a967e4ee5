// Activation of new event types: they are written once every live instance reads them. The first instance that finds
// this appends it to the chain.
import { CHAIN_ROW, decideChain } from '../../domain/chain.ts'
import { EVENT_VERSION } from '../../domain/control.ts'
import { sleep } from '../../lib/event-loop/sleep.ts'
import type { Diagnostics } from '../../lib/process/diagnostics.ts'
import type { Commit, LiveState } from '../../state/port.ts'
import type { Instances } from './instances.ts'

export interface ActivationDeps {
  readonly live: Pick<LiveState, 'control'>
  readonly commit: Commit
  readonly instances: Pick<Instances, 'list'>
  readonly diagnostics: Diagnostics
  /**
   * How long the instance listens before one without announcements counts as dead: longer than an instance may be
   * silent.
   */
  readonly listenMs?: number
  readonly everyMs?: number
  /** What is to be active; that of this build when absent. */
  readonly version?: number
}

const LISTEN_MS = 6_000
const EVERY_MS = 1_000

export interface Activation {
  close(): Promise<void>
}

/** Works until the chain has the version, or until it is closed. Open it when announcements are read. */
export const openActivation = (deps: ActivationDeps): Activation => {
  const closing = new AbortController()
  const work = activate(deps, closing.signal)
  return {
    async close() {
      closing.abort()
      await work
    },
  }
}

const activate = async (deps: ActivationDeps, signal: AbortSignal): Promise<void> => {
  const { live, commit, instances, diagnostics, version = EVENT_VERSION } = deps
  const isActive = () => (live.control.table('chain').get(CHAIN_ROW)?.schema_version ?? 1) >= version
  if (!isActive()) await sleep(deps.listenMs ?? LISTEN_MS, signal)
  while (!signal.aborted && !isActive()) {
    const announced = instances.list().map(({ event_version }) => event_version)
    try {
      if (announced.every((one) => one >= version)) {
        await commit({
          actor: { type: 'system', id: 'schema' },
          decide: (state) => decideChain(state, { do: 'activate', version, announced }),
        })
      }
    } catch (error) {
      // An older instance, or an unreachable log: retried until it is done.
      diagnostics.warn('event_types_not_activated', { version, error })
    }
    if (!isActive()) await sleep(deps.everyMs ?? EVERY_MS, signal)
  }
}
