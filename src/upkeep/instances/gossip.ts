// What instances announce beside how far they have folded: open breakers, when breakers were cleared, and failed
// logins.
import type { AnnouncedFailures } from '../../state/indexes/failed-logins.ts'
import type { InstanceAnnounced } from './instance-announced.ts'

export interface AnnouncementPorts {
  /** Models whose breakers are open here, at most `MOST_OPEN_BREAKERS`. */
  readonly openBreakers?: () => readonly string[]
  /** Called with those of another instance, at each of its announcements. */
  readonly onOpenBreakers?: (modelIds: readonly string[]) => void
  /** When breakers were last cleared as far as this instance has it, Unix milliseconds; 0: never. */
  readonly breakersCleared?: () => number
  /**
   * Called with the time that another instance announces, at each of its announcements. True: it is newer, and the
   * breakers are cleared here as well.
   */
  readonly onBreakersCleared?: (atMs: number) => boolean
  /** Failed logins that this instance announces; `onFailedLogins` gets those of another instance. */
  readonly failedLogins?: () => readonly AnnouncedFailures[]
  readonly onFailedLogins?: (instance: string, announced: readonly AnnouncedFailures[]) => void
}

type Announced = Pick<InstanceAnnounced, 'open_breakers' | 'breakers_cleared_ms' | 'failed_logins'>

/** The content of an announcement now; empty members are left out. */
export const announcedNow = ({ openBreakers, breakersCleared, failedLogins }: AnnouncementPorts): Announced => {
  const open = openBreakers?.() ?? []
  const clearedMs = breakersCleared?.() ?? 0
  const failed = failedLogins?.() ?? []
  return {
    ...(open.length === 0 ? {} : { open_breakers: [...open] }),
    ...(clearedMs === 0 ? {} : { breakers_cleared_ms: clearedMs }),
    ...(failed.length === 0 ? {} : { failed_logins: [...failed] }),
  }
}

/**
 * Applies the announcement of another instance. True: this instance is to announce at once that it has applied it,
 * since a caller may wait for that.
 */
export const applyAnnouncement = (
  ports: AnnouncementPorts,
  { instance, ...announced }: Announced & { readonly instance: string },
): boolean => {
  const { breakers_cleared_ms: clearedMs, open_breakers: open, failed_logins: failed } = announced
  // First: the breakers that it announces as open were opened after that.
  const isNews = clearedMs !== undefined && ports.onBreakersCleared?.(clearedMs) === true
  if (open !== undefined) ports.onOpenBreakers?.(open)
  if (failed !== undefined) ports.onFailedLogins?.(instance, failed)
  return isNews
}
