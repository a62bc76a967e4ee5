// Looks at the event loop and at the memory of this process, for whoever lets requests in.
import { readFileSync } from 'node:fs'
import { totalmem } from 'node:os'
import { LoadGate, type LoadGateSettings } from '../lib/load-gate.ts'

export interface LoadWatch {
  readonly gate: LoadGate
  close(): void
}

const LOOK_MS = 50
const MEMORY_EVERY = 20
const LIMIT_FILES = ['/sys/fs/cgroup/memory.max', '/sys/fs/cgroup/memory/memory.limit_in_bytes']

/** What this process may use: the memory of the container, else of the machine. */
export const memoryOfMachine = (): number => {
  const limits = LIMIT_FILES.map(limitIn).filter((bytes) => Number.isSafeInteger(bytes) && bytes > 0)
  return Math.min(totalmem(), ...limits)
}

/** NaN where there is none (`max`, no such file). */
const limitIn = (path: string): number => {
  try {
    return Number(readFileSync(path, 'utf8').trim())
  } catch {
    return Number.NaN // not on Linux, or another layout of its control groups
  }
}

/** Linux: what the main thread got of a processor and how long it waited for one, nanoseconds, since it started. */
const SCHEDULE = '/proc/self/schedstat'

export interface ThreadTime {
  readonly ranMs: number
  /** It could have run, and had nothing to do. */
  readonly restedMs: number
}

/** Answers, each time, what the main thread did since then; undefined where the kernel does not count it. */
export const threadTimes = (nowMs: () => number, schedule = SCHEDULE): (() => ThreadTime | undefined) => {
  const read = () => {
    try {
      const [ranNs, waitedNs] = readFileSync(schedule, 'utf8').split(' ').map(Number)
      return { atMs: nowMs(), ranMs: ranNs! / 1e6, waitedMs: waitedNs! / 1e6 }
    } catch {
      return null // not on Linux, or a kernel that does not count this
    }
  }
  let before = read()
  return () => {
    const now = before === null ? null : read()
    if (before === null || now === null) return undefined
    const ranMs = now.ranMs - before.ranMs
    const restedMs = Math.max(0, now.atMs - before.atMs - (now.waitedMs - before.waitedMs) - ranMs)
    before = now
    return { ranMs, restedMs }
  }
}

/** Starts the looks. */
export const watchLoad = (bounds: Pick<LoadGateSettings, 'maxDelayMs' | 'maxMemoryBytes'>): LoadWatch => {
  const gate = new LoadGate({ everyMs: LOOK_MS, nowMs: () => performance.now(), ...bounds })
  const times = threadTimes(() => performance.now())
  let memoryBytes = process.memoryUsage.rss()
  let looks = 0
  const timer = setInterval(() => {
    if (++looks % MEMORY_EVERY === 0) memoryBytes = process.memoryUsage.rss()
    gate.look(memoryBytes, times())
  }, LOOK_MS)
  timer.unref()
  return { gate, close: () => clearInterval(timer) }
}
