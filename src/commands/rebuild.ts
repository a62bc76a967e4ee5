// `gateway rebuild [read-model]`: makes tables anew from the log, beside those in use, and switches when they have
// caught up. The gateway may be up or down.
import { rebuild } from '../../projections/rebuild.ts'
import { readModels } from '../../projections/worker.ts'
import { openReadStore, requestDaysOf } from '../composition/read-store.ts'
import type { Config } from '../config/schema.ts'
import type { Diagnostics } from '../lib/process/diagnostics.ts'
import { nearest } from '../lib/text/nearest.ts'
import type { EventLog } from '../log/port.ts'

export interface RebuildCommand {
  readonly config: Config
  /** The key of the decisions' MAC. */
  readonly macKey: Uint8Array
  readonly log: EventLog
  readonly diagnostics: Diagnostics
  /** Names of read models; none: all. */
  readonly args: readonly string[]
  readonly signal: AbortSignal
  readonly print: (line: string) => void
  readonly complain: (line: string) => void
}

/** The exit code: 0 once every requested read model has caught up and is in use. */
export const rebuildCommand = async (command: RebuildCommand): Promise<number> => {
  const { config, macKey, log, diagnostics, args, signal, print, complain } = command
  const known = readModels(macKey, requestDaysOf(config))
  const names = known.map(({ name }) => name)
  const unknown = args.find((name) => !names.includes(name))
  if (unknown !== undefined) {
    const hint = nearest(unknown, names)
    complain(
      `there is no read model "${unknown}"${hint === null ? '.' : `; did you mean "${hint}"?`} ` +
        `They are: ${names.join(', ')}.`,
    )
    return 1
  }
  const chosen = known.filter(({ name }) => args.length === 0 || args.includes(name))
  const store = openReadStore(config, diagnostics)
  try {
    await rebuild({ projections: chosen, log, databaseUrl: store.url, signal, diagnostics, print })
    return 0
  } catch (error) {
    complain(
      'the rebuild was not finished, the tables in use are unchanged: ' +
        `${error instanceof Error ? error.message : error}`,
    )
    return 1
  } finally {
    await store.close()
  }
}
