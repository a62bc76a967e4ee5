// A server for `refusal.ts` that always sends the same answer. `empty`: an answer without a body. `refusal`: a gateway
// that refuses all chat completions, because it has no room for them.

import { failureHandlers } from '../../../src/http/failure-handlers.ts'
import { hotRoutes } from '../../../src/http/inference.ts'
import { admitWhileRoom } from '../../../src/http/overload.ts'
import { LoadGate } from '../../../src/lib/event-loop/load-gate.ts'
import type { Answer } from '../../../src/lib/http-server/answer.ts'
import { serveHttp } from '../../../src/lib/http-server/server.ts'

const gate = new LoadGate({ everyMs: 50, maxDelayMs: 1, maxMemoryBytes: 1, nowMs: () => performance.now() })
gate.measure(2) // memory is short from the start: there is a rate
gate.room = 0
const refused = admitWhileRoom(() => {
  throw new Error('let in')
}, gate)
const EMPTY: Answer = { status: 429, head: '', body: '', closes: false }
const { port } = serveHttp({
  hostname: '127.0.0.1',
  port: 0,
  reusePort: false,
  idleMs: 75_000,
  headMs: 10_000,
  handlers: {
    fetch: () => new Response(null, { status: 404 }),
    hot: hotRoutes(process.argv[2] === 'empty' ? () => EMPTY : refused),
    ...failureHandlers({ diagnostics: console }),
  },
})
process.on('message', () => {
  const { user, system } = process.cpuUsage()
  process.send!(user + system)
})
process.send!(port)
