// A snapshot of a build with more event types: its rows contain the effects of these events, but they do not show that
// this build cannot read the types.
import { expect, test } from 'bun:test'
import { createHmac } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { EVENT_VERSION } from '../../../src/domain/control.ts'
import { memoryLog } from '../../../src/log/memory.ts'
import { foldAgain } from '../../../src/state/fold.ts'
import { loadSnapshot, snapshotPath, writeSnapshot } from '../../../src/state/history/snapshot.ts'
import { begin, macKey, nowMs } from '../support.ts'

/** The same snapshot as another build would have signed it. */
const rewritten = (text: string, change: (header: Record<string, unknown>) => void): string => {
  const [first, ...rest] = text.trimEnd().split('\n').slice(0, -1)
  const header = JSON.parse(first!) as Record<string, unknown>
  change(header)
  const body = [JSON.stringify(header), ...rest].map((line) => `${line}\n`).join('')
  return `${body}${createHmac('sha256', macKey).update(body).digest('hex')}\n`
}

test('it is not used, but proves what the log held; those of this build, and of builds that did not say, are', async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'gatelog-newer-'))
  try {
    const log = memoryLog({ nowMs })
    await begin(log)
    writeSnapshot(dataDir, await foldAgain(log, macKey, new AbortController().signal), nowMs())
    const path = snapshotPath(dataDir)
    const text = readFileSync(path, 'utf8')
    const { start, witness } = await loadSnapshot(dataDir, macKey)
    expect(start?.next).toBe(1)
    writeFileSync(
      path,
      rewritten(text, (header) => delete header.event_version),
    )
    expect((await loadSnapshot(dataDir, macKey)).start?.next).toBe(1)
    writeFileSync(
      path,
      rewritten(text, (header) => {
        header.event_version = EVENT_VERSION + 1
      }),
    )
    const newer = await loadSnapshot(dataDir, macKey)
    expect(newer).toMatchObject({ start: null, witness })
    expect(newer.problem).toContain(`event version ${EVENT_VERSION + 1}`)
  } finally {
    rmSync(dataDir, { recursive: true, force: true })
  }
})
