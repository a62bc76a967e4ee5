// What gateways on Kafka share in tests: settings, and topics made once by the product's own command.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { runCommand } from './command.ts'

/** 32 bytes for tests only. */
export const MASTER_KEY = Buffer.alloc(32, 7).toString('base64')

export const kafkaSettings = (brokers: readonly string[], more: Readonly<Record<string, unknown>> = {}) => ({
  log: { kafka: { brokers: [...brokers], partitions: 3 } },
  security: { master_key: MASTER_KEY },
  ...more,
})

/** Settings of a gateway that starts neither worker nor Postgres: what is tested needs none. */
export const NO_READ_MODELS = {
  worker: { enabled: false },
  database: { url: 'postgres://nobody@127.0.0.1:1/nothing' },
}

/** Runs `gateway topics --init` and throws with its output when it fails. */
export const initTopics = async (settings: Readonly<Record<string, unknown>>, folder: string): Promise<string> => {
  const file = join(folder, 'topics.yaml')
  writeFileSync(file, JSON.stringify({ data: { dir: join(folder, 'topics-data') }, ...settings }))
  const { out, errors, code } = await runCommand(['topics', '--init'], { env: { GATEWAY_CONFIG: file } })
  if (code !== 0) throw new Error(`gateway topics --init ended with ${code}:\n${out}${errors}`)
  return out
}
