// What the tests of the local log share: temporary folders, spools with small defaults, reading all of a spool.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Damage, SegmentReader } from '../../src/log/segments/reader.ts'
import type { SpoolRecord } from '../../src/log/segments/record.ts'
import { type LocalSpool, openSpool, type SpoolOptions } from '../../src/log/spool/open.ts'

/** A folder that `remove` deletes. */
export const temporaryFolder = (): { readonly path: string; remove(): void } => {
  const path = mkdtempSync(join(tmpdir(), 'gatelog-spool-'))
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) }
}

/** A spool that ships, with durability `process` and without ballast, unless `options` differ. */
export const openTestSpool = (dataDir: string, options: Partial<SpoolOptions> = {}): Promise<LocalSpool> =>
  openSpool({
    dataDir,
    durability: 'process',
    keeping: { until: 'shipped' },
    nowMs: Date.now,
    ballastBytes: 0,
    ...options,
  })

/** Everything that can be read of a spool directory now, and what was damage. */
export const readAll = (
  directory: string,
  from = 0,
): { readonly records: SpoolRecord[]; readonly damage: Damage[] } => {
  const damage: Damage[] = []
  const cursor = new SegmentReader({ directory, onDamage: (found) => damage.push(found) })
  const records: SpoolRecord[] = []
  if (cursor.seek({ record: from })) {
    do records.push(...cursor.next(64))
    while (!cursor.atEnd)
  }
  cursor.close()
  return { records, damage }
}

/**
 * A process of this repository's Bun that runs a fixture. `line()` returns the next line that it prints, null when the
 * process has ended.
 */
export const startProcess = (fixture: string, ...parameters: string[]) => {
  const child = Bun.spawn([process.execPath, join(import.meta.dir, 'fixtures', fixture), ...parameters], {
    stdout: 'pipe',
    stderr: 'inherit',
    stdin: 'ignore',
  })
  const lines = linesOf(child.stdout)
  return {
    line: async (): Promise<string | null> => (await lines.next()).value ?? null,
    /** All lines that are left, after the process was killed or ended. */
    async rest(): Promise<string[]> {
      const all: string[] = []
      for (let line = await this.line(); line !== null; line = await this.line()) all.push(line)
      return all
    },
    async kill(): Promise<void> {
      child.kill('SIGKILL')
      await child.exited
    },
    exited: child.exited,
  }
}

async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string, undefined> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const chunk of stream) {
    text += decoder.decode(chunk, { stream: true })
    const lines = text.split('\n')
    // What a killed process left unfinished is no line.
    text = lines.pop() ?? ''
    yield* lines
  }
}
