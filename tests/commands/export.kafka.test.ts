import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Kafka, startKafka } from '../../infra/kafka/kafka.ts'
import { exportCommand } from '../../src/commands/export.ts'
import { topicsCommand } from '../../src/commands/topics.ts'
import { logSettings } from '../../src/composition/settings.ts'
import { loadConfig } from '../../src/config/schema.ts'
import { decisionMacKey } from '../../src/domain/kernel/decision.ts'
import { openLog } from '../../src/log/open-log.ts'

const folder = mkdtempSync(join(tmpdir(), 'gatelog-export-kafka-'))
const masterKey = Buffer.alloc(32, 7)
let kafka: Kafka
beforeAll(async () => {
  kafka = await startKafka()
}, 240_000)
afterAll(async () => {
  await kafka?.stop()
  rmSync(folder, { recursive: true, force: true })
})

test('export folds the control topic of a broker', async () => {
  const { config } = loadConfig({
    file: null,
    env: {
      GATEWAY_DATA_DIR: folder,
      GATEWAY_LOG_KAFKA_BROKERS: kafka.bootstrap.join(','),
      GATEWAY_SECURITY_MASTER_KEY: masterKey.toString('base64'),
    },
  })
  const told: string[] = []
  const common = { config, complain: (line: string) => void told.push(line), nowMs: Date.now }
  await topicsCommand({ ...common, init: true, print: () => {}, newChainId: () => 'chain_on_kafka' })
  told.length = 0
  const log = openLog(logSettings(config, 'export'))
  const { signal } = new AbortController()
  const written: string[] = []
  const run = (asOf: string | null) => {
    const write = async (text: string) => void written.push(text)
    return exportCommand({ ...common, macKey: decisionMacKey(masterKey), log, asOf, output: null, write, signal })
  }
  try {
    expect(await run(null)).toBe(0)
    expect(await run('2999-01-01T00:00:00Z')).toBe(0)
    expect(await run('2001-01-01T00:00:00Z')).toBe(1)
  } finally {
    await log.close()
  }
  expect(written).toHaveLength(2)
  for (const text of written) expect(text).toContain('chain_on_kafka')
  expect(told).toEqual(['--as-of: this is before the first decision'])
}, 240_000)
