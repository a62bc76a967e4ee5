// The modes of what stands in a data folder.
import { afterAll, expect, test } from 'bun:test'
import { chmodSync, lstatSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { startGateway } from '../services/gateway.ts'

const gateway = startGateway({ settings: { worker: { enabled: false } } })
afterAll(() => gateway.remove())

/** Path and mode of all below a folder, but for the folder of the embedded Postgres, which is another account's. */
const modesIn = (folder: string, path = ''): [path: string, mode: number, isFolder: boolean][] =>
  readdirSync(join(folder, path), { withFileTypes: true })
    .filter(({ name }) => name !== 'postgres')
    .flatMap((entry) => {
      const at = join(path, entry.name)
      const own = [at, lstatSync(join(folder, at)).mode & 0o777, entry.isDirectory()] as [string, number, boolean]
      return entry.isDirectory() ? [own, ...modesIn(folder, at)] : [own]
    })

test('S45: nothing in a data folder can be read by another account, also after others opened it', async () => {
  const data = join(gateway.folder, 'data')
  await gateway.until('serving', 60_000)
  const created = await gateway.request('/admin/v1/tenants', { method: 'POST', body: { name: 'acme', slug: 'acme' } })
  expect(created.status).toBe(201)
  const open = () => modesIn(data).filter(([, mode, isFolder]) => mode !== (isFolder ? 0o700 : 0o600))
  expect(modesIn(data).length).toBeGreaterThan(20)
  expect(open()).toEqual([])
  expect(lstatSync(data).mode & 0o777 & ~0o710).toBe(0)
  await gateway.end('SIGTERM')
  for (const [path, mode, isFolder] of modesIn(data))
    if (path !== 'master.key') chmodSync(join(data, path), isFolder ? 0o755 : mode | 0o044)
  chmodSync(data, 0o755)
  gateway.start()
  await gateway.until('serving', 60_000)
  expect(open()).toEqual([])
  expect(lstatSync(data).mode & 0o777 & ~0o710).toBe(0)
}, 120_000)
