// What a test opens is closed when it ends.
import { afterEach } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface Closing {
  /** What is done after the test: the last first, each of them whatever becomes of the others. */
  push(close: () => unknown): void
  /** A temporary folder that goes with the test. */
  folder(): string
}

/** Call it once, at the top of a test file or of a `describe`. */
export const closedAfterEach = (): Closing => {
  const closing: (() => unknown)[] = []
  afterEach(async () => {
    const failures: unknown[] = []
    for (const close of closing.splice(0).reverse()) {
      try {
        await close()
      } catch (failure) {
        failures.push(failure)
      }
    }
    if (failures.length > 0) throw failures[0]
  }, 60_000)
  return {
    push: (close) => void closing.push(close),
    folder() {
      const path = mkdtempSync(join(tmpdir(), 'gatelog-test-'))
      closing.push(() => rmSync(path, { recursive: true, force: true }))
      return path
    },
  }
}
