import { type Files, nodeFiles } from '../../src/log/files.ts'
import type { LocalSpool } from '../../src/log/spool.ts'

export const diskError = (code: string) => Object.assign(new Error(`injected ${code}`), { code })

/** A disk with so many bytes left, which may also break. Removing a file gives its bytes back. */
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
    write: (descriptor, bytes, start, length) => {
      if (this.broken !== null) throw diskError(this.broken)
      if (this.left <= 0) throw diskError('ENOSPC')
      const count = nodeFiles.write(descriptor, bytes, start, Math.min(length, this.left))
      this.left -= count
      const path = this.paths.get(descriptor)!
      this.sizes.set(path, (this.sizes.get(path) ?? 0) + count)
      return count
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
}

export const appendTo = (spool: LocalSpool, text: string, admission = false) =>
  spool.append(
    'requests',
    admission ? 'request.admitted' : 'request.settled',
    'tenant',
    JSON.stringify({ id: text }),
    admission,
  )
