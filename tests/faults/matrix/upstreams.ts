// The providers of the matrix: a faulty one for each row, and the good one that may take over.
import { readFileSync } from 'node:fs'
import { startUpstream } from '../../services/upstream.ts'
import { GOOD_TEXT } from './cell.ts'
import { type FaultServer, startFaultServer } from './fault-server.ts'
import type { Row } from './row.ts'

const fixture = (name: string) => readFileSync(`${import.meta.dir}/../../fixtures/tls/${name}`, 'utf8')

export interface MatrixUpstreams {
  readonly good: string
  baseUrl(row: Row): string
  calls(row: Row, model: string): { readonly faulty: number | null; readonly good: number }
  stop(): Promise<void>
}

const serverOf = (row: Row): FaultServer | null => {
  if (row.baseUrl !== undefined) return null
  const tls = row.tls === 'cert' ? { cert: fixture('upstream.pem'), key: fixture('upstream.key') } : undefined
  return startFaultServer(row.answer ?? (() => {}), {
    ...(tls === undefined ? {} : { tls }),
    anyBytes: row.tls === 'https',
  })
}

export const startMatrixUpstreams = (rows: readonly Row[]): MatrixUpstreams => {
  const good = startUpstream({ behaviour: { text: GOOD_TEXT } })
  const servers = new Map(rows.map((row) => [row, serverOf(row)]))
  return {
    good: good.baseUrl,
    baseUrl: (row) => {
      const server = servers.get(row)
      if (server === null || server === undefined) return row.baseUrl!
      return `${row.tls === undefined ? 'http' : 'https'}://127.0.0.1:${server.port}/v1`
    },
    calls(row, model) {
      const server = servers.get(row)
      const naming = (text: string) => text.includes(`"${model}"`) || text.includes(`/${model}:`)
      return {
        // Where no request could be sent, its contents are unknown.
        faulty:
          server === null || server === undefined || row.tls !== undefined
            ? null
            : server.requests.filter(naming).length,
        good: good.received.filter(({ body }) => body?.model === model).length,
      }
    },
    async stop() {
      for (const server of servers.values()) server?.stop()
      await good.stop()
    },
  }
}

export const MATRIX_POLICY = {
  retry: { attempts: 0 },
  timeouts: { connect_ms: 700, first_token_ms: 1_500, stream_idle_ms: 700, total_ms: 20_000 },
}
export const SHORT_POLICY = { ...MATRIX_POLICY, timeouts: { ...MATRIX_POLICY.timeouts, total_ms: 3_000 } }

export const bodyOf = (model: string, stream: boolean) => ({
  model,
  messages: [{ role: 'user', content: 'What goes wrong?' }],
  ...(stream ? { stream } : {}),
})
