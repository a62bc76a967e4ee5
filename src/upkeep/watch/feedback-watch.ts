// Keeps routing's figures of feedback up to date: feedback that was given here at once, feedback of other instances as
// soon as the read model shows it.
import { sleep } from '../../lib/event-loop/sleep.ts'
import type { HealthBook } from '../../state/health/book.ts'
import { FeedbackMeans, type FeedbackSum } from '../../state/health/feedback-means.ts'

export interface FeedbackWatchDeps {
  readonly book: Pick<HealthBook, 'feedback'>
  nowMs(): number
  /** Sums since then by model, and the time of the newest; throws while the read model cannot be read. */
  sums(sinceMs: number): Promise<{ readonly sums: ReadonlyMap<string, FeedbackSum>; readonly untilMs: number }>
}

const TICK_MS = 1_000
const READ_EVERY_MS = 60_000
/** Older feedback does not describe the model as it is now. */
const COUNTED_MS = 7 * 86_400_000

export const watchFeedback = ({ book, nowMs, sums }: FeedbackWatchDeps): { means: FeedbackMeans; close(): void } => {
  const means = new FeedbackMeans()
  const closing = new AbortController()
  const { signal } = closing
  const timer = setInterval(() => {
    const changed = means.means()
    if (changed !== null) book.feedback(changed)
  }, TICK_MS)
  timer.unref()
  const read = async (): Promise<void> => {
    while (!signal.aborted) {
      try {
        const { sums: base, untilMs } = await sums(nowMs() - COUNTED_MS)
        means.rebase(base, untilMs)
      } catch {
        // Postgres is not reachable: the figures stay, and it is queried again in a minute.
      }
      await sleep(READ_EVERY_MS, signal)
    }
  }
  void read()
  return {
    means,
    close() {
      closing.abort()
      clearInterval(timer)
    },
  }
}
