// The answers that an oracle client received complete, in a separate file that is synced before an answer counts. The
// comparison with the log reads them from this file.
import { closeSync, fdatasync, openSync, readFileSync, writeSync } from 'node:fs'

/** What a client held when it had a whole answer. */
export interface Seen {
  readonly id: string
  readonly sentMs: number
  readonly firstByteMs: number
  /** Tokens of prompt and answer, as the answer reports them; null: it reports none. */
  readonly tokens: number | null
}

export interface Journal {
  /** Resolves when the entry is on the disk. An entry that arrives during a sync is covered by the next one. */
  note(seen: Seen): Promise<void>
  close(): Promise<void>
}

export const openJournal = (path: string): Journal => {
  const file = openSync(path, 'a', 0o600)
  let waiting: { readonly line: string; resolve(): void; reject(error: Error): void }[] = []
  let syncing: Promise<void> | null = null

  const syncAll = async () => {
    while (waiting.length > 0) {
      const covered = waiting
      waiting = []
      writeSync(file, covered.map(({ line }) => line).join(''))
      await new Promise<void>((resolve) =>
        fdatasync(file, (error) => {
          for (const each of covered) error === null ? each.resolve() : each.reject(error)
          resolve()
        }),
      )
    }
    syncing = null
  }
  return {
    note(seen) {
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      waiting.push({ line: `${JSON.stringify(seen)}\n`, resolve, reject })
      syncing ??= syncAll()
      return promise
    },
    async close() {
      while (syncing !== null) await syncing
      closeSync(file)
    },
  }
}

/** A last line that is torn was never counted. */
export const readJournal = (path: string): Seen[] =>
  readFileSync(path, 'utf8')
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Seen)
