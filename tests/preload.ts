// Runs before the first test (bunfig.toml): no test sees the caller's settings, nor `gateway.yaml` and `.gateway` of
// the clone.
import { afterAll } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isGatewayVariable } from './environment.ts'

for (const name of Object.keys(process.env)) if (isGatewayVariable(name)) delete process.env[name]

const folder = mkdtempSync(join(tmpdir(), 'gatelog-test-cwd-'))
process.chdir(folder)
afterAll(() => rmSync(folder, { recursive: true, force: true }))
