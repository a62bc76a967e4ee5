// Measures the event loop and the memory of this process, for the gate that admits requests.
import { closeSync, openSync, readFileSync, readSync } from 'node:fs'
import { totalmem } from 'node:os'
import { LoadGate, type LoadGateSettings } from '../../lib/event-loop/load-gate.ts'

export interface LoadWatch {
  readonly gate: LoadGate
  close(): void
}

const LOOK_MS = 50
const MEMORY_EVERY = 20
const LIMIT_FILES = ['/sys/fs/cgroup/memory.max', '/sys/fs/cgroup/memory/memory.limit_in_bytes']

/** The memory limit of this process: of the container, else of the machine. */
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

/** Null: not on Linux, or a kernel that does not count this. */
const openedFile = (path: string): number | null => {
  try {
    return openSync(path, 'r')
  } catch {
    return null
  }
}

const LINE = Buffer.alloc(128)
/** Read from its beginning once more: a file that stays open takes one call instead of four, twenty times a second. */
const textIn = (file: number): string | null => {
  try {
    return LINE.toString('latin1', 0, readSync(file, LINE, 0, LINE.length, 0))
  } catch {
    return null
  }
}

export interface ThreadTime {
  readonly ranMs: number
  /** The thread could have run, and had nothing to do. */
  readonly idleMs: number
}

export interface ThreadTimes {
  /** What the main thread did since the last call; undefined where the kernel does not count it. */
  since(): ThreadTime | undefined
  close(): void
}

/** Of the main thread, from now on; `schedule` is a file like Linux's, which is kept open. */
export const threadTimes = (nowMs: () => number, schedule = SCHEDULE): ThreadTimes => {
  let file = openedFile(schedule)
  const read = () => {
    const text = file === null ? null : textIn(file)
    if (text === null) return null
    const [ranNs, waitedNs] = text.split(' ', 2).map(Number)
    return { atMs: nowMs(), ranMs: ranNs! / 1e6, waitedMs: waitedNs! / 1e6 }
  }
  let before = read()
  return {
    since() {
      const now = before === null ? null : read()
      if (before === null || now === null) return undefined
      const ranMs = now.ranMs - before.ranMs
      const idleMs = Math.max(0, now.atMs - before.atMs - (now.waitedMs - before.waitedMs) - ranMs)
      before = now
      return { ranMs, idleMs }
    },
    close() {
      before = null
      // Its number may be another file's by the time of a second call.
      const open = file
      file = null
      if (open !== null) closeSync(open)
    },
  }
}

/** Memory that the process has only to save time. */
export interface SpareMemory {
  /** Drops it; returns about how many bytes it was. */
  drop(): number
}
/** At most so often: a full collection takes tens of milliseconds, and dropped entries come again. */
const RELIEF_EVERY_MS = 10_000

/**
 * The resident memory; where it is above the bound, what it is without spare memory, which is dropped before requests
 * are refused. `collect`: frees what was dropped.
 */
export const relievedMemory = (
  spare: SpareMemory,
  mostBytes: number | null,
  ports: { nowMs(): number; residentBytes(): number; collect(): void },
): (() => number) => {
  let relievedMs = Number.NEGATIVE_INFINITY
  return () => {
    const bytes = ports.residentBytes()
    const nowMs = ports.nowMs()
    if (mostBytes === null || bytes <= mostBytes || nowMs - relievedMs < RELIEF_EVERY_MS) return bytes
    if (spare.drop() === 0) return bytes
    relievedMs = nowMs
    ports.collect()
    return ports.residentBytes()
  }
}

/** Starts the measurements. */
export const watchLoad = (
  bounds: Pick<LoadGateSettings, 'maxDelayMs' | 'maxMemoryBytes'>,
  spare: SpareMemory,
): LoadWatch => {
  const gate = new LoadGate({ everyMs: LOOK_MS, nowMs: () => performance.now(), ...bounds })
  const times = threadTimes(() => performance.now())
  const residentBytes = relievedMemory(spare, bounds.maxMemoryBytes, {
    nowMs: () => performance.now(),
    residentBytes: () => process.memoryUsage.rss(),
    collect: () => Bun.gc(true),
  })
  let memoryBytes = residentBytes()
  let looks = 0
  const timer = setInterval(() => {
    if (++looks % MEMORY_EVERY === 0) memoryBytes = residentBytes()
    gate.measure(memoryBytes, times.since())
  }, LOOK_MS)
  timer.unref()
  const close = () => {
    clearInterval(timer)
    times.close()
  }
  return { gate, close }
}
