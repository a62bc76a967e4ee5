import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { damageOf, openFile } from '../../../src/log/embedded/sqlite-file.ts'
import { LogDamaged } from '../../../src/log/port.ts'

test('of a damaged topic its own files are named, never the folder: what the others hold is newer than a backup', () => {
  const folder = mkdtempSync(join(tmpdir(), 'gatelog-damaged-'))
  const path = join(folder, 'gateway.keys.v1.sqlite')
  try {
    writeFileSync(path, 'no database at all, but long enough to be looked at '.repeat(40))
    expect(() => openFile({ path, compacted: true, synced: true })).toThrow(LogDamaged)
    expect(() => openFile({ path, compacted: true, synced: true })).toThrow(
      'restore gateway.keys.v1.sqlite* of that folder from a backup, instead of all files of that name and no others',
    )
    expect(damageOf(path, new Error('busy'))).toBeNull()
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
