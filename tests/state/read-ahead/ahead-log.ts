// What a thread opens as its log in tests of reading ahead: the embedded log, and ways to fail.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { embeddedLog } from '../../../src/log/embedded/log.ts'
import type { EventLog } from '../../../src/log/port.ts'

export interface AheadLog {
  readonly dataDir: string
  /** `reading`: after the first batches. `silent`: it gives nothing, until it is told to stop. */
  readonly fails?: 'opening' | 'reading' | 'silent'
  /** A folder that gets a file `reading` and a file `closed`. */
  readonly marks?: string
}

const GIVEN_BATCHES = 3

export const openAheadLog = ({ dataDir, fails, marks }: AheadLog): EventLog => {
  if (fails === 'opening') throw new Error('planned: cannot be opened')
  const log = embeddedLog({ dataDir, nowMs: Date.now })
  const mark = (name: string) => marks !== undefined && writeFileSync(join(marks, name), '')
  return {
    ...log,
    async *read(topic, partition, from, signal) {
      mark('reading')
      if (fails === 'silent') {
        if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve))
        return
      }
      let batches = 0
      for await (const batch of log.read(topic, partition, from, signal)) {
        if (fails === 'reading' && batches++ === GIVEN_BATCHES) throw new Error('planned: cannot be read')
        yield batch
      }
    },
    async close() {
      await log.close()
      mark('closed')
    },
  }
}
