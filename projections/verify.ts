// What `gateway verify` reads of the read models: how far each has come and what its tables hold, and whether the audit
// log is what the chain gives.
import { canonicalJson } from '../src/domain/kernel/tables.ts'
import type { LogRecord } from '../src/log/port.ts'
import { AuditFolder, type AuditRow } from './audit/project.ts'
import { activeBuild } from './builds.ts'
import { isMissingTable, type Sql, storableJson, within } from './database.ts'
import type { Build } from './projection.ts'

/** One build of a read model as it stands. */
export interface BuildFigures {
  readonly model: string
  readonly version: number
  readonly state: Build['state']
  readonly topic: string
  /** Partition -> the offset that comes next, in order. */
  readonly positions: readonly { readonly partition: number; readonly next: number; readonly tip: string | null }[]
  /** Records that were set aside. */
  readonly poison: number
  readonly tables: readonly { readonly name: string; readonly rows: number; readonly digest: string }[]
}

const SCAN_MS = 600_000

/** Read models that are compared with the log. */
const COMPARED = ['audit', 'requests', 'frames'] as const

/** Those of them that were never built: all, where no worker has made any table yet. */
export const neverBuilt = async (sql: Sql): Promise<readonly string[]> => {
  const missing: string[] = []
  for (const model of COMPARED) if (!(await isBuilt(sql, model))) missing.push(model)
  return missing
}

const isBuilt = async (sql: Sql, model: string): Promise<boolean> => {
  try {
    return (await within(activeBuild(sql, model), SCAN_MS)) !== null
  } catch (error) {
    if (isMissingTable(error)) return false
    throw error
  }
}

/**
 * Every build, its positions, and a digest of each of its tables: equal tables have equal digests, in whatever order
 * they were filled.
 */
export const buildFigures = async (sql: Sql): Promise<readonly BuildFigures[]> => {
  const builds = await within(
    sql<(Build & { topic: string })[]>`
      select model, build, version, topic, schema_name as "schemaName", state from gatelog.build order by model, build`,
    SCAN_MS,
  )
  const figures: BuildFigures[] = []
  for (const each of builds) {
    const { model, build, version, topic, state } = each
    const positions = await sql<{ partition: number; next: number; tip: string | null }[]>`
      select partition, next_offset as next, tip from gatelog.position where model = ${model} and build = ${build}
      order by partition`
    const [{ poison } = { poison: 0 }] = await sql<{ poison: number }[]>`
      select count(*) as poison from gatelog.poison where model = ${model} and build = ${build}`
    figures.push({ model, version, topic, state, positions, poison, tables: await tablesOf(sql, each) })
  }
  return figures
}

const tablesOf = async (sql: Sql, { schemaName }: Build): Promise<BuildFigures['tables']> => {
  const names = await sql<{ name: string }[]>`
    select tablename as name from pg_tables t where schemaname = ${schemaName} and tablename <> 'checkpoint'
      and not exists (select 1 from pg_inherits i join pg_class c on c.oid = i.inhrelid
      join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = t.schemaname and c.relname = t.tablename)
    order by 1`
  const tables: { name: string; rows: number; digest: string }[] = []
  for (const { name } of names) {
    const [row] = await within(
      sql<{ rows: number; digest: string }[]>`
        select count(*) as rows, lpad(to_hex(coalesce(bit_xor(hashtextextended(t::text, 0)), 0)), 16, '0') as digest
        from ${sql(`${schemaName}.${name}`)} t`,
      SCAN_MS,
    )
    tables.push({ name, ...row! })
  }
  return tables
}

/** Compares the audit log with what the chain gives, record by record; holds no more than a batch of them. */
export interface AuditCheck {
  /**
   * Records of the control topic, in order, from the first on. Those that the audit log has not read yet are passed
   * over.
   */
  take(records: readonly LogRecord[]): Promise<void>
  /** What is wrong, one line each, with the offset. At most twenty, then how many more. */
  problems(): readonly string[]
  /** Rows that were compared and are equal. */
  readonly equalRows: number
}

const MAX_PROBLEMS_SHOWN = 20

/** Null while there is no audit log. */
export const openAuditCheck = async (sql: Sql, macKey: Uint8Array): Promise<AuditCheck | null> => {
  const build = await within(activeBuild(sql, 'audit'), SCAN_MS)
  if (build === null) return null
  const [position] = await sql<{ next: number; tip: string | null }[]>`
    select next_offset as next, tip from gatelog.position
    where model = 'audit' and build = ${build.build} and partition = 0`
  return position === undefined ? null : new ChainAudit(sql, build, position, macKey)
}

class ChainAudit implements AuditCheck {
  equalRows = 0
  readonly #folder: AuditFolder
  readonly #problems: string[] = []
  #found = 0
  #logAtMs = 0
  #next = 0

  constructor(
    readonly sql: Sql,
    readonly build: Build,
    readonly position: { readonly next: number; readonly tip: string | null },
    macKey: Uint8Array,
  ) {
    this.#folder = new AuditFolder(macKey)
  }

  async take(records: readonly LogRecord[]): Promise<void> {
    const { position } = this
    const known = records.filter(({ offset }) => offset < position.next)
    const from = known[0]?.offset
    if (from === undefined) return
    const expected: AuditRow[] = []
    for (const record of known) {
      this.#logAtMs = Math.max(this.#logAtMs, record.atMs)
      expected.push(...this.#folder.fold(record, this.#logAtMs).rows)
    }
    this.#next = known.at(-1)!.offset + 1
    const stored = await this.sql<AuditRow[]>`
      select * from ${this.sql(`${this.build.schemaName}.audit_event`)}
      where log_offset >= ${from} and log_offset < ${this.#next} order by log_offset, event_index`
    this.#compare(JSON.parse(storableJson(expected)) as AuditRow[], stored)
    if (this.#next === position.next && this.#folder.tip() !== position.tip) {
      const [own, theirs] = [this.#folder.tip().slice(0, 12), position.tip?.slice(0, 12) ?? 'none']
      this.#report(
        `the audit log was made with the tip ${theirs} at offset ${position.next}, the chain has ${own} there`,
      )
    }
  }

  problems(): readonly string[] {
    const { next } = this.position
    const beyond =
      this.#next < next ? [`the audit log has read up to ${next}, the control topic ends at ${this.#next}`] : []
    const more = this.#found - this.#problems.length
    return [...beyond, ...this.#problems, ...(more > 0 ? [`and ${more} more differences of the audit log`] : [])]
  }

  #compare(expected: readonly AuditRow[], stored: readonly AuditRow[]): void {
    const left = new Map(stored.map((row) => [placeOf(row), row]))
    for (const row of expected) {
      const place = placeOf(row)
      const found = left.get(place)
      left.delete(place)
      if (found === undefined) this.#report(`the audit log lacks event ${place}`)
      else if (canonicalJson(found) === canonicalJson(row)) this.equalRows += 1
      else this.#report(`the audit log differs from the chain at event ${place}: ${differing(found, row)}`)
    }
    for (const place of left.keys()) this.#report(`the audit log has event ${place}, which the chain does not give`)
  }

  #report(problem: string): void {
    this.#found += 1
    if (this.#problems.length < MAX_PROBLEMS_SHOWN) this.#problems.push(problem)
  }
}

const placeOf = ({ log_offset, event_index }: AuditRow): string => `${event_index} at offset ${log_offset}`

const differing = (stored: AuditRow, expected: AuditRow): string =>
  Object.keys(expected)
    .filter((name) => canonicalJson(stored[name as keyof AuditRow]) !== canonicalJson(expected[name as keyof AuditRow]))
    .join(', ')
