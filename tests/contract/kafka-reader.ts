// A reader in a separate process, for tests that stop processes: prints `<offset> <value>` for every record, one line
// each.
import { kafkaLog } from '../../src/log/kafka/log.ts'

const [bootstrap = '', topic = '', from = '0'] = process.argv.slice(2)
const decoder = new TextDecoder()
const log = kafkaLog({ brokers: bootstrap.split(','), clientId: 'reader' })
const stop = new AbortController()
process.once('SIGTERM', () => stop.abort())
for await (const batch of log.read(topic, 0, Number(from), stop.signal)) {
  const lines = batch.map(({ offset, value }) => `${offset} ${value === null ? 'null' : decoder.decode(value)}\n`)
  process.stdout.write(lines.join(''))
}
await log.close()
