// The input of `/system` from a process in which all is well.
import type { SystemRouteDeps } from '../../../../src/http/admin/reads/system.ts'
import type { CheckResult } from '../../../../src/http/operations.ts'

export const QUIET_STATUS = { phase: 'live', tip: 'f'.repeat(64), offset: 7, staleMs: 0 } as const

const ok: CheckResult = { text: 'ok', ready: true }

export const quietSystem = {
  build: { name: 'gatelog', version: '0.0.0', commit: null, environment: 'test' },
  components: { log: 'embedded', database: 'postgres', redis: 'none' },
  checkReadiness: async () => ({
    status: 'ok',
    checks: new Map(['control', 'log', 'database', 'worker'].map((name) => [name, ok])),
  }),
  projections: async () => [{ model: 'requests', lagMs: 12, behindRecords: 3, poisonRecords: 0, ageMs: 250 }],
  instanceCounts: () => ({ live: 2, diverged: 0, behindRecords: 0 }),
  instance: 'ins_1',
  settings: { 'server.port': 8080 },
} as const satisfies Partial<SystemRouteDeps>
