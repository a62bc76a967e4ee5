// Preloaded into a gateway: its spool's disk fails as the file that `FAULT_DISK` names says, read anew at each use:
// nothing, `sync-eio` (each second fdatasync fails), `short` (writes take a third of what they are given), `slow` (each
// write takes 200 ms). Counts its faults in a file beside that one.
import { appendFileSync, readFileSync } from 'node:fs'
import { nodeFiles } from '../../../src/log/files.ts'

const path = process.env.FAULT_DISK
if (path === undefined) throw new Error('FAULT_DISK is not set')
const fault = (): string => readFileSync(path, 'utf8').trim()
const did = (what: string): void => appendFileSync(`${path}.did`, `${what}\n`)
const failed = new Set<number>()
let syncs = 0

const { create, sync, write } = nodeFiles
Object.assign(nodeFiles, {
  create(name: string) {
    const descriptor = create(name)
    failed.delete(descriptor)
    return descriptor
  },
  async sync(descriptor: number) {
    if (failed.has(descriptor)) did('synced again')
    if (fault() === 'sync-eio' && syncs++ % 2 === 0) {
      did('sync-eio')
      failed.add(descriptor)
      throw Object.assign(new Error('injected EIO'), { code: 'EIO' })
    }
    await sync(descriptor)
  },
  write(descriptor: number, bytes: Uint8Array, start: number, length: number, position: number) {
    const what = fault()
    if (what === 'slow') {
      did('slow')
      Bun.sleepSync(200)
    }
    if (what === 'short' && length > 3) {
      did('short')
      return write(descriptor, bytes, start, Math.ceil(length / 3), position)
    }
    return write(descriptor, bytes, start, length, position)
  },
} satisfies Partial<typeof nodeFiles>)
