// A bound on the memory of one process, kept by the kernel: the OOM killer ends a process that exceeds it. Needs root
// and a memory control group (v1 or v2).
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const ROOT = '/sys/fs/cgroup'

/** Where the two versions keep the same things. */
const V1 = { parent: join(ROOT, 'memory'), limit: 'memory.limit_in_bytes', events: 'memory.oom_control' }
const V2 = { parent: ROOT, limit: 'memory.max', events: 'memory.events' }

export interface MemoryGroup {
  /** Its memory counts from now on; what it has already does not. */
  add(pid: number): void
  /** How many processes the kernel has ended here. */
  kills(): number
  remove(): void
}

/** Null where this machine does not let us: not root, or no such control group. */
export const openMemoryGroup = (limitBytes: number): MemoryGroup | null => {
  const { parent, limit, events } = existsSync(V1.parent) ? V1 : V2
  const folder = join(parent, `gatelog-fault-${process.pid}`)
  try {
    mkdirSync(folder)
    writeFileSync(join(folder, limit), String(limitBytes))
  } catch (error) {
    console.error(`no memory control group: ${String(error)}`)
    if (existsSync(folder)) rmdirSync(folder)
    return null
  }
  return {
    add: (pid) => writeFileSync(join(folder, 'cgroup.procs'), String(pid)),
    kills: () => Number(/^oom_kill (\d+)$/m.exec(readFileSync(join(folder, events), 'utf8'))?.[1] ?? Number.NaN),
    remove: () => rmdirSync(folder),
  }
}
