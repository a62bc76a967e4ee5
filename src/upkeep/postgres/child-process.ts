// A child process that belongs to this one: restarted when it ends, ended when this one ends, however that happens.
import { setPriority } from 'node:os'
import type { Diagnostics } from '../../lib/process/diagnostics.ts'

export interface ChildOptions {
  /** For diagnostics: `worker`, `sibling`. */
  readonly name: string
  readonly command: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
  readonly diagnostics: Diagnostics
  /** 1 to 19: how far it yields to others that want the same core; as this process when absent. */
  readonly niceness?: number
  /** The longest wait before it is started again; the first is 250 ms. */
  readonly maxBackoffMs?: number
  /** The exit code that means that a restart is of no use; `onRefused` is then called, once. */
  readonly refusedCode?: number
  readonly onRefused?: () => void
  /** How long a stop waits before it kills the child. */
  readonly stopMs?: number
}

export interface ChildProcess {
  status(): {
    readonly running: boolean
    readonly pid: number | null
    readonly restarts: number
    readonly detail: string
  }
  /** Sends it a signal, if it runs. */
  signal(signal: NodeJS.Signals): void
  /** Signals it to end, kills it when it does not, and starts it no more. */
  stop(): Promise<void>
}

const FIRST_BACKOFF_MS = 250
const MAX_BACKOFF_MS = 10_000
/** A child that ran for so long was healthy: its next end starts the waits anew. */
const WELL_MS = 30_000
const STOP_MS = 10_000

/** At once: threads that it makes later inherit it. */
const standBack = (pid: number, niceness: number): void => {
  try {
    setPriority(pid, niceness)
  } catch {
    // It has ended already, or its priority may not be changed here: then it runs as it is.
  }
}

/**
 * Starts the child and keeps it running. Its standard input is a pipe that only this process holds: a child that reads
 * it to the end learns that its parent has ended, also after `kill -9` (`endWithParent`).
 */
export const superviseChild = (options: ChildOptions): ChildProcess => {
  const { name, command, env, diagnostics, niceness, maxBackoffMs = MAX_BACKOFF_MS, stopMs = STOP_MS } = options
  const stopping = Promise.withResolvers<void>()
  let stopped = false
  let child: Bun.Subprocess<'pipe', 'inherit', 'inherit'> | null = null
  let restarts = 0
  let detail = 'starting'

  const runOnce = async (): Promise<{ code: number; ranMs: number }> => {
    const startedAt = performance.now()
    child = Bun.spawn([...command], { stdin: 'pipe', stdout: 'inherit', stderr: 'inherit', env: { ...env } })
    if (niceness !== undefined) standBack(child.pid, niceness)
    detail = 'running'
    const code = await child.exited
    child = null
    detail = `ended with ${code}`
    return { code, ranMs: performance.now() - startedAt }
  }

  const supervise = async (): Promise<void> => {
    let failures = 0
    while (!stopped) {
      const { code, ranMs } = await runOnce()
      if (stopped) return
      if (code === options.refusedCode) {
        detail = 'refused to run, and is not started again: see what it printed, then restart this process'
        options.onRefused?.()
        return
      }
      failures = ranMs > WELL_MS ? 0 : failures + 1
      restarts++
      const waitMs = Math.min(maxBackoffMs, FIRST_BACKOFF_MS * 2 ** Math.min(failures, 16))
      diagnostics.warn('child_ended', { name, detail, again_in_ms: waitMs })
      await Promise.race([Bun.sleep(waitMs), stopping.promise])
    }
  }
  const finished = supervise()

  return {
    status: () => ({ running: child !== null, pid: child?.pid ?? null, restarts, detail }),
    signal: (signal) => child?.kill(signal),
    async stop() {
      stopped = true
      stopping.resolve()
      child?.kill('SIGTERM')
      const insist = setTimeout(() => child?.kill('SIGKILL'), stopMs)
      await finished
      clearTimeout(insist)
    },
  }
}

/** How long a child without a parent may take to end in an orderly way. */
const ORPHAN_MS = 5_000

/**
 * For the child: calls back once, when the process that holds the other end of standard input has ended; the child then
 * has 5 s before it is ended.
 */
export const endWithParent = (onGone: () => void): void => {
  void (async () => {
    for await (const _ of Bun.stdin.stream()) {
      // nothing is ever sent
    }
    setTimeout(() => process.exit(1), ORPHAN_MS)
    onGone()
  })()
}
