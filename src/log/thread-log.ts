// How a thread opens a log of its own: it receives the name of a module, of a function in it, and its options.
import type { EventLog } from './port.ts'

/** Plain data. The log is `await (await import(logModule))[logFactory](logOptions)`. */
export interface ThreadLog {
  readonly logModule: string
  readonly logFactory: string
  readonly logOptions: unknown
}

/** Opens it, in the receiving thread. */
export const openThreadLog = async ({ logModule, logFactory, logOptions }: ThreadLog): Promise<EventLog> => {
  const module: Record<string, (options: unknown) => EventLog | Promise<EventLog>> = await import(logModule)
  const open = module[logFactory]
  if (open === undefined) throw new Error(`${logModule} has no ${logFactory}`)
  return open(logOptions)
}
