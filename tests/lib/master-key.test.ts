import { afterAll, describe, expect, test } from 'bun:test'
import { chmodSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readMasterKey, readOrMakeMasterKey } from '../../src/lib/master-key.ts'

const folder = mkdtempSync(join(tmpdir(), 'gatelog-key-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe('the master key file', () => {
  test('is made once, with mode 0600, and read from then on', () => {
    const path = join(folder, 'made', 'master.key')
    expect(readMasterKey(path)).toBeNull()
    const key = readOrMakeMasterKey(path)
    expect(key.length).toBe(32)
    expect(statSync(path).mode & 0o777).toBe(0o600)
    expect(readOrMakeMasterKey(path)).toEqual(key)
    expect(readdirSync(join(folder, 'made'))).toEqual(['master.key'])
  })

  test('is one for processes that race', async () => {
    const path = join(folder, 'raced', 'master.key')
    const module = join(import.meta.dir, '../../src/lib/master-key.ts')
    const script = `import { readOrMakeMasterKey } from ${JSON.stringify(module)}
      console.log(Buffer.from(readOrMakeMasterKey(${JSON.stringify(path)})).toString('hex'))`
    const children = Array.from({ length: 6 }, () => Bun.spawn([process.execPath, '-e', script], { stdout: 'pipe' }))
    const keys = await Promise.all(children.map((child) => new Response(child.stdout).text()))
    expect(keys[0]).toMatch(/^[0-9a-f]{64}\n$/)
    expect(new Set(keys).size).toBe(1)
  })

  test('that others may read, or that holds something else, is refused', () => {
    const path = join(folder, 'odd.key')
    writeFileSync(path, 'c2hvcnQ=\n', { mode: 0o600 })
    expect(() => readMasterKey(path)).toThrow('must hold 32 bytes in base64')
    chmodSync(path, 0o644)
    expect(() => readMasterKey(path)).toThrow('can be read by others')
  })
})
