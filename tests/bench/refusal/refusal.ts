// Measures the processor time of a refusal by load, beside that of an empty answer of Bun: `bun
// tests/bench/refusal/refusal.ts [rounds]`.
// Both get the same open load, in turn, so that other work of the machine affects both.
import { join } from 'node:path'
import { openLoad } from '../../faults/clients/open-load.ts'

const ROUNDS = Number(process.argv[2] ?? 3)
const PER_SECOND = 4_000
const CONNECTIONS = 500
const WARM_MS = 1_500
const ROUND_MS = 4_000

const words = Array.from({ length: 200 }, (_, i) => `word${i}`).join(' ')
const body = JSON.stringify({ model: 'any', stream: true, messages: [{ role: 'user', content: words }] })
const head =
  `POST /v1/chat/completions HTTP/1.1\r\nHost: gateway.test\r\nAuthorization: Bearer none\r\n` +
  `Content-Type: application/json\r\nContent-Length: ${body.length}`
const request = new TextEncoder().encode(`${head}\r\n\r\n${body}`)

/** Microseconds of the whole process for one answer, and how many there were. */
const costOf = async (kind: string): Promise<{ us: number; n: number }> => {
  let told = Promise.withResolvers<number>()
  const child = Bun.spawn([process.execPath, join(import.meta.dir, 'refusal-process.ts'), kind], {
    stdio: ['ignore', 'inherit', 'inherit'],
    ipc: (message: number) => told.resolve(message),
  })
  const load = openLoad(await told.promise, request, CONNECTIONS)
  const spentUs = () => {
    told = Promise.withResolvers()
    child.send('how much')
    return told.promise
  }
  await load.run(PER_SECOND, WARM_MS)
  const before = await spentUs()
  const { refused, served, failed } = await load.run(PER_SECOND, ROUND_MS)
  const us = (await spentUs()) - before
  load.close()
  child.kill()
  await child.exited
  if (served + failed > 0) throw new Error(`${kind}: ${served} served, ${failed} failed`)
  return { us: us / refused, n: refused }
}

for (let round = 0; round < ROUNDS; round++)
  for (const kind of ['empty', 'refusal']) {
    const { us, n } = await costOf(kind)
    console.log(`${kind.padEnd(8)} ${us.toFixed(1)} us of processor each, N ${n}`)
  }
