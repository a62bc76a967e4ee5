import { describe, expect, test } from 'bun:test'
import { decisionMacKey } from '../../../src/domain/kernel/decision.ts'
import { memoryLog } from '../../../src/log/memory.ts'
import { CONTROL } from '../../../src/state/fold.ts'
import { startChain } from '../../../src/state/live/genesis.ts'
import { macKey, nowMs } from '../support.ts'

const start = (log: Parameters<typeof startChain>[0]['log'], chainId: string, key = macKey) =>
  startChain({ log, macKey: key, chainId, nowMs, partitions: {} })

describe('starting a chain', () => {
  test('several that start at once agree on one, and again changes nothing', async () => {
    const log = memoryLog({ nowMs })
    const results = await Promise.all(['a', 'b', 'c'].map((id) => start(log.view(), `chain_${id}`)))
    expect(new Set(results.map(({ chainId }) => chainId)).size).toBe(1)
    const records = log.records(CONTROL).length
    expect(await start(log.view(), 'chain_z')).toEqual({ chainId: results[0]!.chainId, started: false })
    expect(log.records(CONTROL).length).toBe(records)
  })

  test('a lost answer does not start it twice', async () => {
    const log = memoryLog({ nowMs })
    let tries = 0
    const view = log.view({ beforeAppend: () => (++tries === 1 ? 'lost_answer' : 'none') })
    expect(await start(view, 'chain_a')).toEqual({ chainId: 'chain_a', started: true })
    expect(log.records(CONTROL)).toHaveLength(1)
  })

  test('a topic of another master key is refused, not started over', async () => {
    const log = memoryLog({ nowMs })
    await start(log, 'chain_a', decisionMacKey(new Uint8Array(32).fill(9)))
    await expect(start(log, 'chain_b')).rejects.toMatchObject({ name: 'ControlLogRefused' })
    expect(log.records(CONTROL)).toHaveLength(1)
  })
})
