import { afterAll, describe, expect, test } from 'bun:test'
import { chmodSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  newMasterKey,
  readMasterKeys,
  readOrMakeMasterKeys,
  writeMasterKeys,
} from '../../../src/lib/crypto/master-key.ts'

const folder = mkdtempSync(join(tmpdir(), 'gatelog-key-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe('the master key file', () => {
  test('is made once, with mode 0600, and read from then on', () => {
    const path = join(folder, 'made', 'master.key')
    expect(readMasterKeys(path)).toBeNull()
    const keys = readOrMakeMasterKeys(path)
    expect(keys.map(({ length }) => length)).toEqual([32])
    expect(statSync(path).mode & 0o777).toBe(0o600)
    expect(readOrMakeMasterKeys(path)).toEqual(keys)
    expect(readdirSync(join(folder, 'made'))).toEqual(['master.key'])
  })

  test('is one for processes that race', async () => {
    const path = join(folder, 'raced', 'master.key')
    const module = join(import.meta.dir, '../../../src/lib/crypto/master-key.ts')
    const script = `import { readOrMakeMasterKeys } from ${JSON.stringify(module)}
      console.log(Buffer.from(readOrMakeMasterKeys(${JSON.stringify(path)})[0]).toString('hex'))`
    const children = Array.from({ length: 6 }, () => Bun.spawn([process.execPath, '-e', script], { stdout: 'pipe' }))
    const keys = await Promise.all(children.map((child) => new Response(child.stdout).text()))
    expect(keys[0]).toMatch(/^[0-9a-f]{64}\n$/)
    expect(new Set(keys).size).toBe(1)
  })

  test('is replaced as a whole: several keys, the current one first, mode 0600, and no draft of a crash beside it', () => {
    const path = join(folder, 'replaced', 'master.key')
    const [first] = readOrMakeMasterKeys(path)
    writeFileSync(`${path}.0123456789ab`, 'left by a crash', { mode: 0o600 })
    const second = newMasterKey()
    writeMasterKeys(path, [second, first])
    expect(readMasterKeys(path)).toEqual([second, first])
    expect(statSync(path).mode & 0o777).toBe(0o600)
    expect(readdirSync(join(folder, 'replaced'))).toEqual(['master.key'])
    writeMasterKeys(path, [second])
    expect(readMasterKeys(path)).toEqual([second])
  })

  test('that others may read, or that holds something else, is refused', () => {
    const path = join(folder, 'odd.key')
    writeFileSync(path, 'c2hvcnQ=\n', { mode: 0o600 })
    expect(() => readMasterKeys(path)).toThrow('must hold 32 bytes in base64')
    chmodSync(path, 0o644)
    expect(() => readMasterKeys(path)).toThrow('can be read by others')
  })
})
