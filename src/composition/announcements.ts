// Puts together the announcements of instances, once the control state can be compared with that of others, and what
// depends on them.

import type { Diagnostics } from '../lib/process/diagnostics.ts'
import { wallMs } from '../lib/time/wall-clock.ts'
import { correctsWallClock, LogClock } from '../log/log-clock.ts'
import type { HealthBook } from '../state/health/book.ts'
import type { FailedLogins } from '../state/indexes/failed-logins.ts'
import { type Activation, openActivation } from '../upkeep/instances/activation.ts'
import { MOST_OPEN_BREAKERS } from '../upkeep/instances/instance-announced.ts'
import { type AppliedBy, type Instances, openInstances } from '../upkeep/instances/instances.ts'
import type { ControlPlane } from './control-plane.ts'

export interface Announcements {
  /** Null until the control state can be compared with that of others. */
  instances(): Instances | null
  /** How many have folded a decision; of one that takes something away once all have, or after a moment. */
  appliedBy(revision: string): Promise<AppliedBy>
  /**
   * Closes every breaker, here and at every instance that reads the announcement. How many have closed theirs: once all
   * have, or after a moment.
   */
  clearBreakers(): Promise<AppliedBy>
  close(): Promise<void>
}

export interface AnnouncementsDeps {
  readonly control: Pick<ControlPlane, 'log' | 'live' | 'commits' | 'stored'>
  readonly instance: string
  readonly build: string
  readonly book: HealthBook
  readonly failures: FailedLogins
  readonly diagnostics: Diagnostics
}

/**
 * Applied-by is best effort: a write that takes something away, or makes a credential, waits so long for the others,
 * any other write not at all.
 */
const APPLIED_WAIT_MS = 250
const ALONE: AppliedBy = { applied: 1, instances: 1 }

export const openAnnouncements = (deps: AnnouncementsDeps): Announcements => {
  const { control, instance, build, book, failures, diagnostics } = deps
  const { log, live } = control
  let instances: Instances | null = null
  let activation: Activation | null = null
  let closed = false
  const startedAtMs = Date.now()
  const announce = async () => {
    await live.ready()
    if (closed) return
    instances = openInstances({
      ...{ log, live, instance, build, nowMs: wallMs, diagnostics, startedAtMs },
      ...(control.stored === null ? {} : { stored: control.stored }),
      clock: new LogClock(correctsWallClock(diagnostics)),
      openBreakers: () => book.openBreakers(MOST_OPEN_BREAKERS),
      onOpenBreakers: (modelIds) => book.warn(modelIds),
      breakersCleared: () => book.clearedMs,
      onBreakersCleared: (atMs) => book.applyCleared(atMs),
      failedLogins: () => failures.announced(wallMs()),
      onFailedLogins: (name, announced) => failures.merge(name, announced, wallMs()),
    })
    activation = openActivation({ live, commit: control.commits.commit, instances, diagnostics })
  }
  void announce().catch(() => undefined) // refused or closed: the caller that opened the control state gets it
  return {
    instances: () => instances,
    async appliedBy(revision) {
      const waitMs = instances?.awaited(revision) ? APPLIED_WAIT_MS : 0
      return (await instances?.appliedBy(revision, waitMs)) ?? ALONE
    },
    async clearBreakers() {
      const atMs = book.clearBreakers()
      return (await instances?.clearedBy(atMs, APPLIED_WAIT_MS)) ?? ALONE
    },
    async close() {
      closed = true
      await activation?.close()
      await instances?.close()
    },
  }
}
