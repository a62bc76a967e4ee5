import { expect, test } from 'bun:test'
import { memoryLog } from '../../src/log/memory.ts'
import { begin, createTenant, nowMs, openInstance } from './support.ts'

const TURNS = 12
const CLIENTS = 20

test('callers that ask again when they are answered share an append, although they do not come in the same turn', async () => {
  const log = memoryLog({ nowMs })
  await begin(log)
  let appends = 0
  const view = log.view({
    beforeAppend: () => {
      appends++
      return 'none'
    },
  })
  const { live, queue, close } = await openInstance('a', view)
  await live.ready()
  const client = async (name: number) => {
    for (let n = 0; n < TURNS; n++) {
      for (let turn = 0; turn <= name % 4; turn++) await new Promise((resolve) => setImmediate(resolve))
      await queue.commit(createTenant(`c${name}-${n}`))
    }
  }
  await Promise.all(Array.from({ length: CLIENTS }, (_, name) => client(name)))
  // One by one it would be four for each turn: the callers come in four groups.
  expect(appends).toBeLessThan(TURNS * 2)
  expect(live.control.table('tenants').size).toBe(CLIENTS * TURNS)
  await close()
})
