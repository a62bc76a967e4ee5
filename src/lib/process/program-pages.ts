// Pages of the running program's own file: the code of the runtime and its constants, mapped to be read and never written. Linux; nothing elsewhere. Decision 46.
import { readFile, readlink } from 'node:fs/promises'
import { breath } from '../event-loop/yield-to-event-loop.ts'
import { systemFunctions } from './system-library.ts'

const MADV_DONTNEED = 4
/** Of addresses, for each turn of the event loop: a slice takes a fraction of a millisecond. */
const SLICE_BYTES = 4 * 1024 * 1024
const SMAPS = '/proc/self/smaps'
const PROGRAM = '/proc/self/exe'

export interface Mapping {
  readonly start: number
  readonly end: number
  /** Of it, in memory. */
  readonly residentBytes: number
}

interface System {
  madvise(address: number, length: number, advice: number): number
}

const system =
  process.platform === 'linux'
    ? systemFunctions<System>({ madvise: { args: ['usize', 'usize', 'i32'], returns: 'i32' } })
    : null

const HEAD = /^([0-9a-f]+)-([0-9a-f]+) (\S{4}) [0-9a-f]+ [0-9a-f]+:[0-9a-f]+ \d+ *(.*)$/
const READ_ONLY = new Set(['r--p', 'r-xp'])
/** What has one of these is not in the file as it is in memory (relocated, or a debugger's), or was not when it was swapped out: without its pages it is lost. */
const OWN_PAGES = ['Private_Dirty', 'Anonymous', 'Swap']

/**
 * Of `/proc/<pid>/smaps`: the mappings of that program whose pages can all be read again from its file. Writable ones never are, nor those that once were
 * (`ac` of `VmFlags`: relocated, then made read-only), nor any of which the kernel does not say all of it.
 */
export const cleanMappings = (smaps: string, program: string): readonly Mapping[] => {
  const found: Mapping[] = []
  for (const text of smaps.split(/\n(?=[0-9a-f]+-[0-9a-f]+ )/)) {
    const [head, ...lines] = text.trimEnd().split('\n')
    const [, start, end, access, path] = HEAD.exec(head!) ?? []
    if (path !== program || !READ_ONLY.has(access!)) continue
    const fields = new Map(lines.map((line) => line.split(/:\s*/, 2) as [string, string]))
    const flags = fields.get('VmFlags')?.split(' ')
    const isClean = OWN_PAGES.every((name) => fields.get(name) === '0 kB')
    if (!isClean || flags === undefined || flags.includes('ac')) continue
    const residentBytes = Number.parseInt(fields.get('Rss') ?? '0', 10) * 1024
    found.push({ start: Number.parseInt(start!, 16), end: Number.parseInt(end!, 16), residentBytes })
  }
  return found
}

/**
 * Lets go of this process's hold on them, in slices between which the event loop turns; what is used comes back as it is touched, mostly from the kernel's
 * memory. Resolves with how many bytes were held; 0 where the system cannot be asked. `smaps` is where the mappings are read. Never rejects.
 */
export const letGoOfProgram = async (smaps = SMAPS): Promise<number> => {
  if (system === null) return 0
  let mappings: readonly Mapping[]
  try {
    mappings = cleanMappings(await readFile(smaps, 'latin1'), await readlink(PROGRAM, 'latin1'))
  } catch {
    return 0 // no such files: another system, or one that shows nothing of it
  }
  let bytes = 0
  for (const mapping of mappings) if (await letGo(system, mapping)) bytes += mapping.residentBytes
  return bytes
}

/** False where the kernel refuses, as it does for memory that is locked. */
const letGo = async ({ madvise }: System, { start, end }: Mapping): Promise<boolean> => {
  for (let at = start; at < end; at += SLICE_BYTES) {
    if (madvise(at, Math.min(SLICE_BYTES, end - at), MADV_DONTNEED) !== 0) return false
    await breath()
  }
  return true
}
