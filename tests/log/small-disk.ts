import { type Files, nodeFiles } from '../../src/log/files.ts'
import type { LocalSpool } from '../../src/log/spool/open.ts'
import { REFUSABLE } from '../../src/log/spool/port.ts'
import { idOf } from './appended.ts'

export const diskError = (code: string) => Object.assign(new Error(`injected ${code}`), { code })

/**
 * A disk with this many free bytes, which may also fail. Only writes that make a file longer take free bytes; removing
 * or truncating the file returns them.
 */
export class SmallDisk {
  left = Number.POSITIVE_INFINITY
  broken: string | null = null
  syncFailures = 0
  syncs = 0
  syncedAfterFailure = 0
  private readonly failed = new Set<number>()
  private readonly sizes = new Map<string, number>()
  private readonly paths = new Map<number, string>()

  readonly files: Files = {
    ...nodeFiles,
    create: (path) => {
      if (this.broken !== null) throw diskError(this.broken)
      const descriptor = nodeFiles.create(path)
      this.paths.set(descriptor, path)
      this.failed.delete(descriptor)
      this.sizes.set(path, 0)
      return descriptor
    },
    write: (descriptor, bytes, start, length, position) => {
      if (this.broken !== null) throw diskError(this.broken)
      const size = this.sizeOf(descriptor)
      const most = Math.max(0, size - position) + this.left
      if (most <= 0) throw diskError('ENOSPC')
      const count = nodeFiles.write(descriptor, bytes, start, Math.min(length, most), position)
      this.resize(descriptor, Math.max(size, position + count))
      return count
    },
    truncate: (descriptor, length) => {
      nodeFiles.truncate(descriptor, length)
      this.resize(descriptor, length)
    },
    sync: async (descriptor) => {
      this.syncs++
      if (this.failed.has(descriptor)) this.syncedAfterFailure++
      if (this.syncFailures > 0) {
        this.syncFailures--
        this.failed.add(descriptor)
        throw diskError('EIO')
      }
      await nodeFiles.sync(descriptor)
    },
    remove: (path) => {
      nodeFiles.remove(path)
      this.left += this.sizes.get(path) ?? 0
      this.sizes.delete(path)
    },
    freeBytes: () => this.left,
  }

  private sizeOf(descriptor: number): number {
    return this.sizes.get(this.paths.get(descriptor)!) ?? 0
  }
  private resize(descriptor: number, size: number): void {
    this.left -= size - this.sizeOf(descriptor)
    this.sizes.set(this.paths.get(descriptor)!, size)
  }
}

export const appendTo = (spool: LocalSpool, text: string, admission = false) =>
  idOf(
    spool.append(
      'requests',
      admission ? 'request.admitted' : 'request.settled',
      'tenant',
      JSON.stringify({ id: text }),
      admission ? REFUSABLE : undefined,
    ),
  )
