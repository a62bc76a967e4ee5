// A holder: one start of a process in an account.
import { type Amount, isNothing, minus, most, NO_AMOUNT, plus } from './amount.ts'

/** One start of a process in an account. All amounts are sums since that start. */
export interface Holder {
  readonly holder: string
  readonly instance: string
  /** Number of its last lease request, granted or not. */
  readonly sequence: number
  readonly granted: Amount
  readonly returned: Amount
  readonly spent: Amount
  readonly counted: Amount
  readonly overrun_nano_usd: number
  /** Absent: 0. */
  readonly overrun_tokens?: number
  readonly at_ms: number
  readonly closed: boolean
  /**
   * Of a retired holder: what its open requests may have cost, until its spool or the process itself reports the real
   * amounts.
   */
  readonly orphaned?: Amount
}

interface Held {
  readonly holders: ReadonlyMap<string, Holder>
}

/**
 * Beyond this number, closed holders are dropped sooner and the rest is stated in several records: so many fit into 64
 * KiB.
 */
export const MOST_HOLDERS = 128

export const newHolder = ({ holder, instance }: { holder: string; instance: string }, atMs: number): Holder => ({
  holder,
  instance,
  sequence: 0,
  granted: NO_AMOUNT,
  returned: NO_AMOUNT,
  spent: NO_AMOUNT,
  counted: NO_AMOUNT,
  overrun_nano_usd: 0,
  at_ms: atMs,
  closed: false,
})

/** The amount that a holder has taken from its account. */
export const committedBy = ({ granted, returned, spent, counted, closed, orphaned = NO_AMOUNT }: Holder): Amount =>
  plus(closed ? plus(spent, orphaned) : most(minus(granted, returned), spent), counted)

/** The open holders of an instance. */
export const openHolders = function* ({ holders }: Held, instance: string): Iterable<Holder> {
  for (const holder of holders.values()) if (holder.instance === instance && !holder.closed) yield holder
}

/**
 * From this number of holders on, silent holders without a balance are retired too: accounts are stated with all of
 * their holders.
 */
const MANY_HOLDERS = MOST_HOLDERS / 2

/** The instances of holders that have a balance and have reported nothing since that time. */
export const silentSince = ({ holders }: Held, beforeMs: number): string[] => {
  const silent: string[] = []
  const areMany = holders.size > MANY_HOLDERS
  for (const holder of holders.values()) {
    const held = minus(minus(holder.granted, holder.returned), holder.spent)
    if (!holder.closed && holder.at_ms < beforeMs && (areMany || !isNothing(held))) silent.push(holder.instance)
  }
  return silent
}
