// A data folder that an earlier build wrote.
import { afterAll, expect, test } from 'bun:test'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { EarlierRecords } from '../../../src/log/port.ts'
import { writeFrame } from '../../../src/log/segments/frame.ts'
import { spoolDirectory } from '../../../src/log/spool/spool.ts'
import { openTestSpool, temporaryFolder } from '../support.ts'

const folder = temporaryFolder()
afterAll(() => folder.remove())

/** The head of a segment as 0.1.0 wrote it. */
const firstFormat = (): Buffer => {
  const numbers = { record: 0, offset: 0, sequence: 0, atMs: 1 }
  const header = {
    format: 1,
    instance: 'ins_1',
    epoch: 'e1',
    record: 0,
    requests: 0,
    operations: 0,
    carried: 0,
    at_ms: 1,
  }
  const buffer = Buffer.alloc(4_096)
  return buffer.subarray(
    0,
    writeFrame(buffer, 0, 'header', numbers, { type: '', subject: '', data: JSON.stringify(header) }),
  )
}

const writeEarlier = (dataDir: string, number: number): void => {
  const directory = spoolDirectory(dataDir, number)
  mkdirSync(directory, { recursive: true })
  writeFileSync(join(directory, '0000000001.segment'), firstFormat())
}

// docs/behaviour.md: "Outcomes"
test('is refused with one line that names the segment', async () => {
  const dataDir = join(folder.path, 'data')
  writeEarlier(dataDir, 0)
  await expect(openTestSpool(dataDir)).rejects.toThrow(EarlierRecords)
  await expect(openTestSpool(dataDir)).rejects.toThrow(
    /spool\/0\/0000000001\.segment holds records of an earlier build/,
  )
})

// docs/behaviour.md: "Outcomes"
test('is refused also where only an abandoned spool is of that build', async () => {
  const dataDir = join(folder.path, 'abandoned')
  await (await openTestSpool(dataDir)).close()
  writeEarlier(dataDir, 1)
  await expect(openTestSpool(dataDir)).rejects.toThrow(
    /spool\/1\/0000000001\.segment holds records of an earlier build/,
  )
})
