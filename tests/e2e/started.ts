// What the tests of starts share: requests to a real gateway, its rows, its output and its processes.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runCommand } from '../services/command.ts'
import { eventually } from '../services/eventually.ts'
import { ADMIN_KEY, type GatewayProcess } from '../services/gateway.ts'

export const ask = (gateway: GatewayProcess, content: string) =>
  gateway.request('/v1/chat/completions', { body: { model: 'sandbox-echo', messages: [{ role: 'user', content }] } })

interface RequestRow {
  readonly id: string
  readonly outcome: string
  readonly error_code: string | null
}

/** Rows of the request log once there are so many: the worker follows within moments. */
export const requestRows = async (gateway: GatewayProcess, count: number): Promise<RequestRow[]> => {
  let body: { requests?: RequestRow[] } = {}
  const rows = await eventually(
    () => `there are ${count} rows, not ${JSON.stringify(body)}`,
    async () => {
      body = await (await gateway.request('/admin/v1/requests')).json()
      return (body.requests?.length ?? 0) >= count && body.requests!
    },
  )
  return rows
}

/** Runs `start` to its end. */
export const run = async (env: Record<string, string>) => {
  const cwd = mkdtempSync(join(tmpdir(), 'gatelog-cwd-'))
  const end = await runCommand(['start'], { cwd, env: { BUN_CONFIG_MAX_HTTP_REQUESTS: '256', ...env } })
  rmSync(cwd, { recursive: true, force: true })
  return end
}

/** Resolves once the worker has applied something of the control topic. */
export const auditRows = async (gateway: GatewayProcess): Promise<void> => {
  let body = ''
  await eventually(
    () => `there is an audit row, not ${body}`,
    async () => {
      const answer = await gateway.request('/admin/v1/audit')
      body = await answer.text()
      return answer.ok && body.includes('aud')
    },
  )
}

export const printed = (gateway: GatewayProcess, text: string, from = 0) =>
  eventually(`it prints ${text}`, () => gateway.output().includes(text, from))

export const defaultTenant = async (gateway: GatewayProcess): Promise<string> => {
  const answer = await gateway.request('/admin/v1/tenants', { key: ADMIN_KEY })
  const { tenants } = (await answer.json()) as { tenants: { id: string; slug: string }[] }
  return tenants.find(({ slug }) => slug === 'default')!.id
}

export const childrenOf = (pid: number): number[] => {
  const { stdout } = Bun.spawnSync(['ps', '-o', 'pid=', '--ppid', String(pid)])
  return stdout.toString().split('\n').filter(Boolean).map(Number)
}

export const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false // no such process
  }
}
