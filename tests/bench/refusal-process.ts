// A server whose every answer is the same, for `refusal.ts`: `empty` answers nothing at all, `refusal` is a gateway without room for chat completions.
import { whileThereIsRoom } from '../../src/http/overload.ts'
import { LoadGate } from '../../src/lib/load-gate.ts'

const IDLE_S = 75
const gate = new LoadGate({ everyMs: 50, maxDelayMs: 1, maxMemoryBytes: 1, nowMs: () => performance.now() })
gate.look(2) // memory is short from the start: there is a rate
gate.room = 0
const refused = whileThereIsRoom(
  () => {
    throw new Error('let in')
  },
  gate,
  IDLE_S,
)
const { port } = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  idleTimeout: 0,
  fetch: process.argv[2] === 'empty' ? () => new Response(null, { status: 429 }) : refused,
})
process.on('message', () => {
  const { user, system } = process.cpuUsage()
  process.send!(user + system)
})
process.send!(port)
