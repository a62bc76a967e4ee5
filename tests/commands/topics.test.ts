import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type Kafka, startKafka } from '../../infra/kafka/kafka.ts'
import { topicsCommand } from '../../src/commands/topics.ts'
import { loadConfig } from '../../src/config/schema.ts'
import { TOPICS } from '../../src/log/topics.ts'

let kafka: Kafka
beforeAll(async () => {
  kafka = await startKafka()
}, 120_000)
afterAll(() => kafka?.stop())

let chains = 0
const run = async (init: boolean, keyByte = 7, brokers: readonly string[] = kafka.bootstrap) => {
  const lines: string[] = []
  const complaints: string[] = []
  const { config } = loadConfig({
    file: null,
    env: {
      GATEWAY_DATA_DIR: 'none',
      GATEWAY_LOG_KAFKA_BROKERS: brokers.join(','),
      GATEWAY_SECURITY_MASTER_KEY: Buffer.alloc(32, keyByte).toString('base64'),
    },
  })
  const code = await topicsCommand({
    config,
    init,
    print: (line) => lines.push(line),
    complain: (line) => complaints.push(line),
    nowMs: Date.now,
    newChainId: () => `chain_${chains++}`,
  })
  return { code, printed: lines.join('\n'), complained: complaints.join('\n') }
}

test('the whole life of the topics: missing, made with a chain, found again, refused to another master key', async () => {
  expect(await run(false)).toMatchObject({ code: 1, printed: '' })

  const first = await run(true)
  expect(first.code).toBe(0)
  for (const { name } of Object.values(TOPICS)) expect(first.printed).toContain(name)
  expect(first.printed).toContain('the chain is started: chain_0')
  expect(first.printed).toContain('kafka-acls.sh')
  expect(first.complained).toStartWith('warning: fewer than 3 copies')

  const second = await run(true)
  expect(second.code).toBe(0)
  expect(second.printed).toContain('the chain was started before: chain_0')
  expect((await run(false)).code).toBe(0)

  const stranger = await run(true, 8)
  expect(stranger.code).toBe(1)
  expect(stranger.complained).toContain('security.master_key')
}, 60_000)

test('without brokers, or with none that answers, it says so in one line and fails', async () => {
  const embedded = await run(false, 7, [])
  expect(embedded).toMatchObject({ code: 1, printed: '' })
  expect(embedded.complained).toContain('log.kafka.brokers is not set')
  const away = await run(false, 7, ['127.0.0.1:1'])
  expect(away).toMatchObject({ code: 1, printed: '' })
  expect(away.complained.split('\n')).toHaveLength(1)
}, 60_000)
