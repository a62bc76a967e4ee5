// The disk of one simulated machine: what the production code writes through the port `Files`, kept in memory. It knows
// what is durable and what is only in the page cache, so that a power cut can take the rest. It can fail, fill up,
// write short, stop a process in the middle of a write, and flip bits.

import type { Files } from '../../src/log/files.ts'
import type { DirectoryLock } from '../../src/log/lock.ts'
import { diskError } from '../log/small-disk.ts'
import type { Random } from './scenario/random.ts'
import type { Owner, Scheduler } from './scheduler.ts'

class Inode {
  bytes = Buffer.alloc(256)
  length = 0
  /** So many bytes are on the platter. */
  synced = 0
  /** Ranges whose sync failed: the kernel calls them clean, so that no later sync writes them. */
  lost: { readonly from: number; readonly to: number }[] = []

  write(at: number, from: Uint8Array): void {
    if (at + from.length > this.bytes.length) {
      const larger = Buffer.alloc(Math.max(2 * this.bytes.length, at + from.length))
      this.bytes.copy(larger, 0, 0, this.length)
      this.bytes = larger
    }
    this.bytes.set(from, at)
    this.length = Math.max(this.length, at + from.length)
  }
}

/** Names that change together, in the order of the journal. */
type NameChange = readonly { readonly path: string; readonly inode: Inode | null }[]

interface Opened {
  readonly inode: Inode
  readonly process: Owner
  failed: boolean
}

export interface DiskFaults {
  /** Share of writes that take fewer bytes than requested. */
  shortWrites: number
  /** Until then (virtual time) it is full: only what is removed can be written. */
  fullUntilMs: number
  /** So many syncs fail, those that come next. */
  failingSyncs: number
  /** A sync takes up to so long. */
  syncMs: number
}

export interface DiskDeps {
  readonly scheduler: Scheduler
  readonly random: Random
  note(what: string): void
}

const SECTOR_BYTES = 512
const FREE_BYTES = 1_000_000_000

export class SimulatedDisk {
  readonly faults: DiskFaults = { shortWrites: 0, fullUntilMs: 0, failingSyncs: 0, syncMs: 2 }
  /** After so many more changes the process dies, in the middle of the last one; null: it does not. */
  diesAfterChanges: number | null = null
  onDeath: (process: Owner) => void = () => {}
  #names = new Map<string, Inode>()
  readonly #directories = new Set<string>()
  /** Names as the platter has them, and the changes since then. */
  #durable = new Map<string, Inode>()
  #journal: NameChange[] = []
  readonly #open = new Map<number, Opened>()
  readonly #locks = new Set<{ directory: string; readonly process: Owner }>()
  #descriptors = 0
  /** Bytes that were removed while it was full. */
  #freed = 0

  constructor(private readonly deps: DiskDeps) {}

  /** The port, as one process has it. What a dead process still does changes nothing. */
  filesOf(process: Owner): Files {
    return {
      create: (path) => {
        this.#change(process, null)
        const inode = new Inode()
        this.#name(path, inode)
        return this.#opened(inode, process)
      },
      write: (descriptor, bytes, start, length, position) =>
        this.#write(process, descriptor, bytes.subarray(start, start + length), position),
      truncate: (descriptor, length) => {
        this.#change(process, null)
        this.#cut(this.#of(descriptor).inode, length)
      },
      // Hints: neither makes anything durable.
      startWriting: () => {},
      dropCached: () => {},
      sync: (descriptor) => this.#sync(process, descriptor),
      syncDirectory: () => {
        this.#change(process, null)
        this.#settleNames(this.#journal.length)
      },
      close: (descriptor) => void this.#open.delete(descriptor),
      rename: (from, to) => {
        this.#change(process, null)
        if (this.#directories.has(from)) return this.#renameDirectory(from, to)
        const inode = this.#inode(from)
        this.#name(from, null)
        this.#name(to, inode)
      },
      remove: (path) => {
        this.#change(process, null)
        this.#freed += this.#inode(path).length
        this.#name(path, null)
      },
      freeBytes: () => (this.isFull ? this.#freed : FREE_BYTES),
      list: (directory) => this.list(directory),
      size: (path) => this.#names.get(path)?.length ?? (this.#directories.has(path) ? 0 : null),
      open: (path) => this.#opened(this.#inode(path), process),
      read: (descriptor, bytes, start, length, position) => {
        const { inode } = this.#of(descriptor)
        const end = Math.min(inode.length, position + length)
        if (end <= position) return 0
        return inode.bytes.copy(bytes, start, position, end)
      },
      readWhole: (path) => this.readWhole(path),
      cut: (path, length) => {
        this.#change(process, null)
        this.#cut(this.#inode(path), length)
      },
      append: (path, bytes) => {
        this.#change(process, null)
        const inode = this.#names.get(path) ?? new Inode()
        inode.write(inode.length, Buffer.from(bytes as Uint8Array))
        inode.synced = inode.length
        if (!this.#names.has(path)) this.#name(path, inode)
      },
      makeDirectory: (path) => this.#makeDirectory(path),
      removeDirectory: (path) => {
        this.#change(process, null)
        for (const name of [...this.#names.keys()]) if (name.startsWith(`${path}/`)) this.#name(name, null)
        for (const name of [...this.#directories])
          if (name === path || name.startsWith(`${path}/`)) this.#directories.delete(name)
      },
      lock: (directory) => this.#lock(directory, process),
    }
  }

  get isFull(): boolean {
    return this.deps.scheduler.nowMs < this.faults.fullUntilMs
  }

  has(directory: string): boolean {
    return this.#directories.has(directory)
  }

  /** Some process lives in it. */
  isHeld(directory: string): boolean {
    for (const lock of this.#locks) if (lock.directory === directory) return true
    return false
  }

  list(directory: string): string[] {
    if (!this.#directories.has(directory)) throw diskError('ENOENT')
    const prefix = `${directory}/`
    const names = new Set<string>()
    const add = (path: string) => {
      if (path.startsWith(prefix)) names.add(path.slice(prefix.length).split('/', 1)[0]!)
    }
    for (const path of this.#names.keys()) add(path)
    for (const path of this.#directories) add(path)
    return [...names]
  }

  readWhole(path: string): Buffer {
    const { bytes, length } = this.#inode(path)
    return Buffer.from(bytes.subarray(0, length))
  }

  /** Flips one bit of a file, on the platter too. */
  flip(path: string, at: number, bit: number): void {
    const { bytes } = this.#inode(path)
    bytes[at] = bytes[at]! ^ (1 << bit)
  }

  /** The process has died: its descriptors are closed, its locks free. The page cache stays. */
  released(process: Owner): void {
    for (const lock of this.#locks) if (lock.process === process) this.#locks.delete(lock)
    for (const [descriptor, opened] of this.#open) if (opened.process === process) this.#open.delete(descriptor)
  }

  /**
   * A power cut: data that was not synced is there in part, or not at all. Names change in the order of the journal.
   */
  powerCut(): void {
    const { random } = this.deps
    this.#settleNames(random.int(0, this.#journal.length))
    this.#journal = []
    this.#names = new Map(this.#durable)
    for (const path of this.#names.keys()) this.#makeDirectory(path.slice(0, path.lastIndexOf('/')))
    for (const [path, inode] of this.#names) {
      for (const { from, to } of inode.lost.splice(0)) inode.bytes.fill(0, from, Math.min(to, inode.length))
      const unsynced = inode.length - inode.synced
      if (unsynced === 0) continue
      // A sector is written whole, or not at all.
      const kept = inode.length <= SECTOR_BYTES ? random.int(0, 1) * unsynced : random.int(0, unsynced)
      this.deps.note(`power cut: ${path.slice(path.lastIndexOf('/') + 1)} keeps ${kept} of ${unsynced} bytes`)
      this.#cut(inode, inode.synced + kept)
      // The file may have its length before it has its bytes.
      if (random.chance(0.3) && kept > 0)
        inode.bytes.fill(0, inode.synced + (inode.length <= SECTOR_BYTES ? 0 : random.int(0, kept)), inode.length)
      inode.synced = inode.length
    }
  }

  #inode(path: string): Inode {
    const inode = this.#names.get(path)
    if (inode === undefined) throw diskError('ENOENT')
    return inode
  }

  #of(descriptor: number): Opened {
    const opened = this.#open.get(descriptor)
    if (opened === undefined) throw diskError('EBADF')
    return opened
  }

  #opened(inode: Inode, process: Owner): number {
    this.#open.set(++this.#descriptors, { inode, process, failed: false })
    return this.#descriptors
  }

  #cut(inode: Inode, length: number): void {
    inode.bytes.fill(0, length, inode.length)
    inode.length = length
    inode.synced = Math.min(inode.synced, length)
  }

  #name(path: string, inode: Inode | null): void {
    if (inode === null) this.#names.delete(path)
    else this.#names.set(path, inode)
    this.#journal.push([{ path, inode }])
  }

  #makeDirectory(path: string): void {
    for (let at = path.length; at > 0; at = path.lastIndexOf('/', at - 1)) this.#directories.add(path.slice(0, at))
  }

  /** With all of its contents, and with its lock. */
  #renameDirectory(from: string, to: string): void {
    const moved = (path: string) => `${to}${path.slice(from.length)}`
    const isIn = (path: string) => path === from || path.startsWith(`${from}/`)
    const files = [...this.#names].filter(([path]) => isIn(path))
    for (const [path, inode] of files) {
      this.#names.delete(path)
      this.#names.set(moved(path), inode)
    }
    this.#journal.push(
      files.flatMap(([path, inode]) => [
        { path, inode: null },
        { path: moved(path), inode },
      ]),
    )
    for (const path of [...this.#directories].filter(isIn)) {
      this.#directories.delete(path)
      this.#directories.add(moved(path))
    }
    for (const lock of this.#locks) if (isIn(lock.directory)) lock.directory = moved(lock.directory)
  }

  #settleNames(count: number): void {
    for (const { path, inode } of this.#journal.splice(0, count).flat()) {
      if (inode === null) this.#durable.delete(path)
      else this.#durable.set(path, inode)
    }
  }

  /** Before anything is changed. `half`: what a process that dies right here gets done. */
  #change(process: Owner, half: (() => void) | null): void {
    if (!process.alive) throw diskError('EIO')
    if (this.diesAfterChanges === null || this.diesAfterChanges-- > 0) return
    this.diesAfterChanges = null
    half?.()
    this.onDeath(process)
    throw diskError('EIO')
  }

  #write(process: Owner, descriptor: number, bytes: Uint8Array, position: number): number {
    const { random } = this.deps
    const { inode } = this.#of(descriptor)
    const { length } = bytes
    const put = (count: number) => inode.write(position, bytes.subarray(0, count))
    this.#change(process, () => put(random.int(0, length)))
    if (!this.isFull) this.#freed = 0
    // What takes the place of bytes that are there needs no room.
    const most = this.isFull ? Math.min(length, inode.length - position + this.#freed) : length
    if (most === 0) throw diskError('ENOSPC')
    const count = most > 1 && random.chance(this.faults.shortWrites) ? random.int(1, most - 1) : most
    if (this.isFull) this.#freed -= Math.max(0, position + count - inode.length)
    put(count)
    return count
  }

  #sync(process: Owner, descriptor: number): Promise<void> {
    const { scheduler, random, note } = this.deps
    const opened = this.#of(descriptor)
    const { inode } = opened
    const covered = inode.length
    return new Promise((resolve, reject) => {
      const delayMs = random.next() * this.faults.syncMs
      const isFailing = this.faults.failingSyncs > 0 && this.faults.failingSyncs-- > 0
      scheduler.after(delayMs, process, () => {
        // The kernel calls pages clean that it could not write: a sync that follows on the same descriptor would lie.
        if (isFailing || opened.failed) {
          opened.failed = true
          // The next descriptor of the same file gets no error, and its sync covers only later writes.
          const to = Math.min(covered, inode.length)
          if (to > inode.synced) inode.lost.push({ from: inode.synced, to })
          note('sync fails')
          return reject(diskError('EIO'))
        }
        inode.synced = Math.max(inode.synced, Math.min(covered, inode.length))
        resolve()
      })
    })
  }

  #lock(directory: string, process: Owner): DirectoryLock | null {
    if (!process.alive) throw diskError('EIO')
    if (!this.#directories.has(directory) || this.isHeld(directory)) return null
    const lock = { directory, process }
    this.#locks.add(lock)
    return { directory, release: () => void this.#locks.delete(lock) }
  }
}
