// `gateway export [--as-of <time|decision id>] [--output <file>]`: the configuration as a `bootstrap:` section. Reads
// the log alone, so it works with the gateway up or down.
import {
  chmodSync,
  chownSync,
  lstatSync,
  realpathSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
  writeFileSync,
} from 'node:fs'
import { resolve } from 'node:path'
import type { Config } from '../config/schema.ts'
import { CHAIN_ROW } from '../domain/chain.ts'
import type { ControlState } from '../domain/control.ts'
import { codeOf } from '../lib/process/error-code.ts'
import { ConfigError } from '../lib/settings/settings.ts'
import { type EventLog, LogGap, LogReplaced } from '../log/port.ts'
import { readChainWitness } from '../state/chain-witness.ts'
import { CONTROL, foldAgain } from '../state/fold.ts'
import { LogHistory } from '../state/history/history.ts'
import { HistoryUnavailable, type Moment } from '../state/history/history-port.ts'
import { ControlLogRefused, problemOf } from '../state/live/guards.ts'
import { readPosition } from '../state/position-witness.ts'
import { exportedText } from '../upkeep/export/bootstrap.ts'

export interface ExportCommand {
  readonly config: Config
  /** The key of the decisions' MAC. */
  readonly macKey: Uint8Array
  readonly log: EventLog
  /** An RFC 3339 time or the id of a decision; null: the newest state. */
  readonly asOf: string | null
  /** A file instead of stdout. */
  readonly output: string | null
  readonly nowMs: () => number
  readonly signal: AbortSignal
  /** Writes to stdout, to the last byte. */
  readonly write: (text: string) => Promise<unknown>
  readonly complain: (line: string) => void
}

interface Found {
  readonly state: ControlState
  readonly revision: string
  readonly atMs: number
}

/**
 * The exit code. Throws ControlLogRefused for a log that must not be read, ConfigError for a file that cannot be
 * written.
 */
export const exportCommand = async (command: ExportCommand): Promise<number> => {
  const { asOf, output, write, complain } = command
  const moment = asOf === null ? null : momentOf(asOf)
  if (moment === undefined) {
    complain('--as-of must be an RFC 3339 time (2026-01-31T12:00:00Z) or the id of a decision (64 hexadecimal digits)')
    return 1
  }
  const newest = await newestState(command)
  const found = moment === null ? newest : await pastState(command, moment)
  if (found === null) {
    const what =
      moment !== null && 'id' in moment ? 'no decision that counted has this id' : 'this is before the first decision'
    complain(`--as-of: ${what}`)
    return 1
  }
  const text = exportedText(found.state, found.atMs, headOf(found))
  if (output === null) await write(text)
  else writeWhole(output, text)
  return 0
}

/** Undefined for a text that is neither. */
const momentOf = (text: string): Moment | undefined => {
  if (/^[0-9a-fA-F]{64}$/.test(text)) return { id: text.toLowerCase() }
  const isTime = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d))?$/i.test(text)
  const atMs = isTime ? Date.parse(text) : Number.NaN
  return Number.isNaN(atMs) ? undefined : { atMs }
}

const headOf = ({ state, revision, atMs }: Found): readonly string[] => [
  `The configuration of ${state.table('chain').get(CHAIN_ROW)?.chain_id ?? 'a chain'} ` +
    `at ${new Date(atMs).toISOString()}, as of the decision`,
  `${revision}. Put it into gateway.yaml of another installation: its next start`,
  'makes what is not there yet. No secrets: credentials and the texts of keys must be given again; operators are ' +
    'not in it.',
]

const newestState = async ({ log, macKey, config, nowMs, signal }: ExportCommand): Promise<Found> => {
  const { dir } = config.data
  const known = { chainId: readChainWitness(dir), position: readPosition(dir), confirmedAtMs: null }
  const fold = await readable(() => foldAgain(log, macKey, signal))
  const problem = problemOf(fold, { chainId: config.log.kafka.chain, allowEmpty: false, known }, null)
  if (problem !== null) throw new ControlLogRefused(problem)
  const [unknown] = fold.unknownTypes
  if (unknown !== undefined)
    throw new ControlLogRefused(`this build does not know events of the type ${unknown}: export with a newer one`)
  return { state: fold.state, revision: fold.tip, atMs: nowMs() }
}

/** Null for a moment before the first decision. The same meaning as `?as_of=`. */
const pastState = async ({ log, macKey, signal }: ExportCommand, moment: Moment): Promise<Found | null> => {
  const history = new LogHistory({
    log,
    macKey,
    checkpoints: { before: async () => null },
    readPast: (state, { revision, atMs }): Found => ({ state, revision, atMs }),
    signal,
  })
  for (;;) {
    try {
      const read = await readable(() => history.answer({ name: 'past', moment, read: null }))
      return (read as { readonly reply: Found } | null)?.reply ?? null
    } catch (error) {
      // A long log is read in parts; each further call goes on where the last ended.
      if (!(error instanceof HistoryUnavailable)) throw error
    }
  }
}

const readable = async <Answer>(read: () => Promise<Answer>): Promise<Answer> => {
  try {
    return await read()
  } catch (error) {
    if (!(error instanceof LogGap || error instanceof LogReplaced)) throw error
    throw new ControlLogRefused(`${CONTROL} cannot be read to its end: ${error.message}`)
  }
}

/**
 * Into a file of its own, renamed over what is there: a reader never finds half a file. A link stays a link, and a file
 * keeps its mode and owner. What is no regular file (a device, a pipe) is written to directly.
 */
const writeWhole = (output: string, text: string): void => {
  const named = resolve(output)
  try {
    const found = statSync(named, { throwIfNoEntry: false })
    const isLink = lstatSync(named, { throwIfNoEntry: false })?.isSymbolicLink() === true
    if (found === undefined ? isLink : !found.isFile()) writeFileSync(named, text)
    else replaceFile(isLink ? realpathSync(named) : named, text, found ?? null)
  } catch (error) {
    const code = codeOf(error)
    if (code === null) throw error
    throw new ConfigError(`--output: ${named} cannot be written (${code}): name another file or mend the permissions`)
  }
}

const replaceFile = (path: string, text: string, former: Stats | null): void => {
  const beside = `${path}.${process.pid}.part`
  try {
    // The file is never readable by more accounts than before, not for a moment.
    writeFileSync(beside, text, former === null ? {} : { mode: former.mode & 0o600 })
    if (former !== null) takeAfter(beside, former)
    renameSync(beside, path)
  } catch (error) {
    rmSync(beside, { force: true })
    throw error
  }
}

const takeAfter = (beside: string, { uid, gid, mode }: Stats): void => {
  try {
    chownSync(beside, uid, gid)
  } catch (error) {
    if (codeOf(error) !== 'EPERM') throw error // only root changes owners: the file then belongs to this account
  }
  chmodSync(beside, mode & 0o7777)
}
