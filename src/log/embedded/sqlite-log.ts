// A topic that several processes of one machine share: a SQLite file in WAL mode, never a blocking wait for others.
// synchronous=FULL unless the topic sets otherwise.
import type { Database } from 'bun:sqlite'
import { mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { sleep } from '../../lib/event-loop/sleep.ts'
import type { Files } from '../files.ts'
import { isBusy } from '../lock.ts'
import {
  IndefiniteAppend,
  type LogDamaged,
  LogGap,
  type LogRecord,
  LogReplaced,
  LogUnavailable,
  type NewRecord,
} from '../port.ts'
import { CommitWatch } from './commit-watch.ts'
import { PreSync } from './pre-sync.ts'
import { damageOf, emptyJournal, openFile, type TopicFile, upToGap } from './sqlite-file.ts'

export interface SqliteTopicOptions extends TopicFile {
  readonly files: Files
  /** Older records are deleted, except the newest of a partition; null keeps all. */
  readonly retentionMs: number | null
  readonly nowMs: () => number
  /** 0 up to 1: jitter of the retries. */
  readonly random: () => number
}

const BATCH_RECORDS = 256
const BUSY_PAUSE_MS = 5
const BUSY_LIMIT_MS = 2_000
const MAX_DELETED_PER_APPEND = 1_000

/** Partitions are tables; a record's offset is its row id. */
export class SqliteTopic {
  private readonly database: Database
  private readonly inode: number
  private readonly tables = new Set<number>()
  private readonly watch: CommitWatch
  private readonly preSync: PreSync
  private closed = false
  /** The last failure, until an operation succeeds. */
  problem: string | null = null

  /** Opens or creates the file. Throws LogUnavailable when that is not possible, LogDamaged when it never will be. */
  constructor(private readonly options: SqliteTopicOptions) {
    mkdirSync(dirname(options.path), { recursive: true, mode: 0o700 })
    this.database = openFile(options)
    this.inode = statSync(options.path).ino
    const version = this.database.query<{ data_version: number }, []>('PRAGMA data_version')
    this.watch = new CommitWatch(() => version.get()?.data_version ?? null)
    const { path, files } = options
    this.preSync = new PreSync({ path: `${path}-ahead`, files, nowMs: () => performance.now() })
  }

  async append(partition: number, records: readonly NewRecord[], signal?: AbortSignal): Promise<void> {
    if (this.options.synced) await this.preSync.ready()
    const erased = await this.withRetries(() => this.write(partition, records), signal)
    this.watch.wake()
    if (erased) await this.emptyJournal(signal)
  }

  async end(partition: number): Promise<number> {
    return this.withRetries(() => this.bounds(partition).end)
  }

  async since(partition: number, atMs: number): Promise<number> {
    return this.withRetries(() => {
      const { end } = this.bounds(partition)
      if (!this.hasTable(partition)) return end
      const found = this.database
        .query<{ offset: number }, [number]>(
          `SELECT offset FROM p${partition} WHERE at_ms >= ? ORDER BY offset LIMIT 1`,
        )
        .get(atMs)
      return found?.offset ?? end
    })
  }

  async *read(partition: number, from: number, signal: AbortSignal): AsyncGenerator<readonly LogRecord[]> {
    let next: number | null = from === 0 ? null : from
    while (!signal.aborted && !this.closed) {
      const rows = await this.readRows(partition, next, signal)
      if (signal.aborted || this.closed) return
      if (rows === null) continue
      next ??= rows[0]?.offset ?? 0
      const whole = upToGap(rows, next)
      if (whole.length > 0) yield whole
      next += whole.length
      if (whole.length < rows.length) this.explainGap(partition, next)
      if (rows.length === 0) {
        const { end } = this.undamaged(() => this.bounds(partition))
        if (end < next) throw new LogReplaced(`${this.options.path}/${partition} ends at ${end}, not ${next}`)
        if (end === next) await this.watch.change(signal)
      }
    }
  }

  close(): void {
    if (this.closed) return
    this.closed = true
    this.watch.close()
    this.database.close()
  }

  /** Null: the file is busy, retry. */
  private async readRows(partition: number, next: number | null, signal: AbortSignal): Promise<LogRecord[] | null> {
    this.checkIdentity(LogReplaced)
    if (!this.undamaged(() => this.hasTable(partition))) {
      if (next !== null) throw new LogReplaced(`${this.options.path}/${partition} is empty, not at ${next}`)
      await this.watch.change(signal)
      return null
    }
    try {
      const rows = this.database
        .query<LogRecord, [number, number]>(
          `SELECT offset, at_ms AS atMs, key, value FROM p${partition} WHERE offset >= ? ORDER BY offset LIMIT ?`,
        )
        .all(next ?? 0, BATCH_RECORDS)
      this.problem = null
      if (rows.length === 0 && next === null) {
        await this.watch.change(signal)
        return null
      }
      return rows
    } catch (error) {
      const damage = this.damage(error)
      if (damage !== null) throw damage
      if (!isBusy(error)) this.problem = String(error)
      await sleep(isBusy(error) ? BUSY_PAUSE_MS : 250, signal)
      return null
    }
  }

  private explainGap(partition: number, next: number): never {
    const { start } = this.bounds(partition)
    const where = `${this.options.path}/${partition}`
    if (next < start) throw new LogReplaced(`${where} begins at ${start}, not ${next}`)
    throw new LogGap(`${where}: offset ${next} is missing`)
  }

  /** Returns whether a value was erased, which must not stay in the write-ahead log. */
  private write(partition: number, records: readonly NewRecord[]): boolean {
    this.checkIdentity(LogUnavailable)
    const { database, options } = this
    const nowMs = options.nowMs()
    let erased = false
    database.run('BEGIN IMMEDIATE')
    try {
      this.makeTable(partition)
      const insert = database.query(`INSERT INTO p${partition} (offset, at_ms, key, value) VALUES (?, ?, ?, ?)`)
      let offset = this.bounds(partition).end
      for (const { key, value } of records) {
        if (options.compacted && key !== null && (this.compact(partition, key) || value === null)) erased = true
        insert.run(offset++, nowMs, key, value)
      }
      this.expire(partition, offset - 1, nowMs)
    } catch (error) {
      this.rollBack()
      throw error
    }
    try {
      this.preSync.timed(() => database.run('COMMIT'))
    } catch (error) {
      this.rollBack()
      if (isBusy(error)) throw error
      throw new IndefiniteAppend(`${options.path}: ${String(error)}`)
    }
    return erased
  }

  /**
   * Removes older values of a key. Their rows stay, without a key, so that offsets have no gap: only a tombstone has a
   * key and no value.
   */
  private compact(partition: number, key: string): boolean {
    const older = `UPDATE p${partition} SET value = NULL, key = NULL WHERE key = ? AND value IS NOT NULL`
    return this.database.query(older).run(key).changes > 0
  }

  private expire(partition: number, newest: number, nowMs: number): void {
    const { retentionMs, compacted } = this.options
    if (retentionMs === null || compacted) return
    const kept = this.database
      .query<{ offset: number }, [number]>(`SELECT offset FROM p${partition} WHERE at_ms >= ? ORDER BY offset LIMIT 1`)
      .get(nowMs - retentionMs)
    const { start } = this.bounds(partition)
    const until = Math.min(kept?.offset ?? newest, newest, start + MAX_DELETED_PER_APPEND)
    if (until > start) this.database.query(`DELETE FROM p${partition} WHERE offset < ?`).run(until)
  }

  /** Waits briefly for readers of other processes; otherwise the next erasure or the last close does it. */
  private async emptyJournal(signal?: AbortSignal): Promise<void> {
    for (const limit = performance.now() + BUSY_LIMIT_MS; !this.closed && performance.now() < limit; ) {
      if (emptyJournal(this.database, this.options.path) || signal?.aborted) return
      await sleep(1 + this.options.random() * 9, signal)
    }
  }

  private rollBack(): void {
    if (this.database.inTransaction) this.database.run('ROLLBACK')
  }

  private bounds(partition: number): { readonly start: number; readonly end: number } {
    if (!this.hasTable(partition)) return { start: 0, end: 0 }
    const row = this.database
      .query<{ low: number | null; high: number | null }, []>(
        `SELECT (SELECT min(offset) FROM p${partition}) AS low, (SELECT max(offset) FROM p${partition}) AS high`,
      )
      .get()
    return row === null || row.low === null || row.high === null
      ? { start: 0, end: 0 }
      : { start: row.low, end: row.high + 1 }
  }

  private hasTable(partition: number): boolean {
    if (this.tables.has(partition)) return true
    const found = this.database
      .query(`SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?`)
      .get(`p${partition}`)
    if (found !== null) this.tables.add(partition)
    return found !== null
  }

  private makeTable(partition: number): void {
    if (this.hasTable(partition)) return
    this.database.run(
      `CREATE TABLE p${partition} (offset INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, key TEXT, value BLOB) STRICT`,
    )
    if (this.options.compacted) this.database.run(`CREATE INDEX p${partition}_key ON p${partition} (key)`)
  }

  /** Retries a synchronous step while another process locks the file, at most 2 s. */
  private async withRetries<Result>(step: () => Result, signal?: AbortSignal): Promise<Result> {
    const limit = performance.now() + BUSY_LIMIT_MS
    for (;;) {
      signal?.throwIfAborted()
      if (this.closed) throw new LogUnavailable('the log is closed')
      try {
        const result = step()
        this.problem = null
        return result
      } catch (error) {
        if (error instanceof LogUnavailable || error instanceof IndefiniteAppend) throw error
        const damage = this.damage(error)
        if (damage !== null) throw damage
        const late = performance.now() >= limit
        if (!isBusy(error) || late) {
          this.problem = `${this.options.path}: ${String(error)}`
          throw new LogUnavailable(this.problem, { cause: error })
        }
      }
      await sleep(1 + this.options.random() * 9, signal)
    }
  }

  private undamaged<Result>(step: () => Result): Result {
    try {
      return step()
    } catch (error) {
      throw this.damage(error) ?? error
    }
  }

  private damage(error: unknown): LogDamaged | null {
    const damage = damageOf(this.options.path, error)
    if (damage !== null) this.problem = damage.message
    return damage
  }

  private checkIdentity(Failure: typeof LogReplaced | typeof LogUnavailable): void {
    if (statSync(this.options.path, { throwIfNoEntry: false })?.ino === this.inode) return
    this.problem = `${this.options.path} was removed or replaced while it was in use`
    throw new Failure(this.problem)
  }
}
