// Outlier ejection: of the rows that serve one model, the one that fails far more than the others is left out for a
// while.
import type { CandidateHealth } from './candidate.ts'

/** One row of a group, over the last 60 s. */
export interface Peer {
  readonly requests: number
  readonly failures: number
  /** Ejected already, or its breaker is not closed: it is out in any case. */
  readonly out: boolean
}

/** Fewer calls are no evidence. */
const MIN_REQUESTS = 20
/** Its failures have at least this share, and are this much above those of its peers together. */
const MIN_SHARE = 0.2
const FACTOR = 2
const MARGIN = 0.1

/** More than this share of a group out at once: the cause is not a single row, so none is left out. */
export const PANIC_SHARE = 0.5
const BASE_MS = 30_000
const MOST_MS = 300_000

/** How long the `times`-th ejection in a row lasts. */
export const ejectionMs = (times: number): number => Math.min(MOST_MS, BASE_MS * Math.max(1, times))

const enough = ({ requests }: Peer): boolean => requests >= MIN_REQUESTS

/** Indexes of the peers to eject now. Peers that are out, or were called too little, are not compared. */
export const outliers = (peers: readonly Peer[]): number[] => {
  const compared = peers.filter((peer) => enough(peer) && !peer.out)
  if (compared.length < 2) return []
  let requests = 0
  let failures = 0
  for (const peer of compared) {
    requests += peer.requests
    failures += peer.failures
  }
  const found: number[] = []
  peers.forEach((peer, index) => {
    if (!enough(peer) || peer.out) return
    const share = peer.failures / peer.requests
    const others = (failures - peer.failures) / (requests - peer.requests)
    if (share >= MIN_SHARE && share >= FACTOR * others + MARGIN) found.push(index)
  })
  return found
}

/** Whether too many of a group of `size` rows are out for ejections to apply. */
export const isPanic = (out: number, size: number): boolean => out > size * PANIC_SHARE

/**
 * Ejects outliers of one group, and sets whether its ejections apply. `routable`: how many rows of the registry serve
 * that name.
 */
export const ejectOutliers = (group: readonly CandidateHealth[], routable: number, nowMs: number): void => {
  if (group.length < 2) {
    for (const single of group) single.panic = true // no other row can serve the calls
    return
  }
  const isOut = (each: CandidateHealth) => each.breaker.state !== 'closed' || each.isEjected(nowMs)
  const peers = group.map((each) => ({
    requests: each.breaker.window.first(nowMs),
    failures: each.breaker.window.second(nowMs),
    out: isOut(each),
  }))
  for (const index of outliers(peers)) {
    const candidate = group[index]!
    // Without an ejection for long: the count restarts.
    const again = nowMs - candidate.ejectedUntilMs < MOST_MS
    candidate.ejections = again ? candidate.ejections + 1 : 1
    candidate.ejectedUntilMs = nowMs + ejectionMs(candidate.ejections)
    // The calls that it was ejected for must not eject it again when it comes back.
    candidate.breaker.window.clear()
  }
  const panic = isPanic(group.filter(isOut).length, Math.max(routable, group.length))
  for (const candidate of group) candidate.panic = panic
}
