// When a process lets go of the pages of its own program (decision 46): its start and the compilers touch most of them, serving needs half.
import type { Diagnostics } from '../../lib/process/diagnostics.ts'
import { letGoOfProgram } from '../../lib/process/program-pages.ts'

/** `firstMs` from the start: the compilers are through with a process that is busy at once. `everyMs`: what comes rarely, a thread that starts, touches as much again. */
const TIMES = { firstMs: 30_000, everyMs: 600_000 }

/** Calls the task after that time, unless what it answers is called before. Keeps no process alive. */
type Later = (task: () => unknown, ms: number) => () => void

const later: Later = (task, ms) => {
  const timer = setTimeout(task, ms)
  timer.unref()
  return () => clearTimeout(timer)
}

/** Begins to wait. `close` ends that; letting go takes milliseconds once it has begun, and is not waited for. One ends before the next is waited for. */
export const letGoWhenWarm = (
  diagnostics: Pick<Diagnostics, 'debug'>,
  { firstMs, everyMs }: typeof TIMES = TIMES,
  after = later,
): { close(): void } => {
  let isClosed = false
  const letGo = async () => {
    diagnostics.debug('program_pages_let_go', { bytes: await letGoOfProgram() })
    if (!isClosed) cancel = after(letGo, everyMs)
  }
  let cancel = after(letGo, firstMs)
  return {
    close() {
      isClosed = true
      cancel()
    },
  }
}
