import { dlopen, ptr } from 'bun:ffi'
import { afterAll, expect, test } from 'bun:test'
import { closeSync, fdatasyncSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { dropCached, startWriting } from '../../../src/lib/process/page-cache.ts'

const MIB = 1024 * 1024
const PAGE = 4096
const folder = mkdtempSync(join(tmpdir(), 'gatelog-page-cache-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const { symbols } = dlopen('libc.so.6', {
  mmap: { args: ['ptr', 'usize', 'i32', 'i32', 'i32', 'i64'], returns: 'ptr' },
  munmap: { args: ['ptr', 'usize'], returns: 'i32' },
  mincore: { args: ['ptr', 'usize', 'ptr'], returns: 'i32' },
})

/** Which pages of a file are in the kernel's memory, by asking the kernel. */
const cachedPages = (path: string, bytes: number): boolean[] => {
  const fd = openSync(path, 'r')
  const PROT_READ = 1
  const MAP_SHARED = 1
  const address = symbols.mmap(null, bytes, PROT_READ, MAP_SHARED, fd, 0)!
  const pages = new Uint8Array(bytes / PAGE)
  expect(symbols.mincore(address, bytes, ptr(pages))).toBe(0)
  symbols.munmap(address, bytes)
  closeSync(fd)
  return [...pages].map((page) => (page & 1) === 1)
}

const written = (name: string, sync: boolean): string => {
  const path = join(folder, name)
  const fd = openSync(path, 'w')
  // Writes small pieces, as a log does: from one large write the kernel may make one large page, which is dropped whole
  // or not at all.
  const piece = new Uint8Array(PAGE).fill(7)
  for (let at = 0; at < 4 * MIB; at += PAGE) writeSync(fd, piece)
  if (sync) fdatasyncSync(fd)
  closeSync(fd)
  return path
}

test('what is on the disk is let go, and only what was named', () => {
  const path = written('synced', true)
  dropCached(path, MIB, 2 * MIB)
  const cached = cachedPages(path, 4 * MIB)
  const perMib = MIB / PAGE
  expect(cached.slice(0, perMib)).not.toContain(false)
  expect(cached.slice(perMib, 3 * perMib)).not.toContain(true)
  expect(cached.slice(3 * perMib)).not.toContain(false)
})

test('sending bytes to the disk keeps them readable and the file as it was', async () => {
  const path = written('sent', false)
  startWriting(path, 0, 4 * MIB)
  dropCached(path, 0, 4 * MIB)
  const bytes = new Uint8Array(await Bun.file(path).arrayBuffer())
  expect(bytes).toHaveLength(4 * MIB)
  expect(bytes.every((byte) => byte === 7)).toBe(true)
})

test('a file that is gone is no error', () => {
  startWriting(join(folder, 'none'), 0, MIB)
  dropCached(join(folder, 'none'), 0, MIB)
})
