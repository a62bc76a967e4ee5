// Opens the log from plain data, which can be sent to a thread: the serving thread, the sender and the snapshot thread
// each open their own.
import { ownModuleUrl } from '../lib/own-files.ts'
import { embeddedLog } from './embedded/log.ts'
import { type KafkaSettings, kafkaAccess, kafkaLog } from './kafka/kafka.ts'
import type { EventLog } from './port.ts'

export type LogSettings =
  | { readonly adapter: 'embedded'; readonly dataDir: string; readonly retentionMs: number }
  /** `use` distinguishes the clients of one process on the brokers. */
  | { readonly adapter: 'kafka'; readonly kafka: KafkaSettings; readonly use: string }

/** Connects on use, not now. Threads get this module and this function's name. */
export const openLog = (settings: LogSettings): EventLog =>
  settings.adapter === 'kafka'
    ? kafkaLog(kafkaAccess(settings.kafka, settings.use))
    : embeddedLog({ dataDir: settings.dataDir, retentionMs: settings.retentionMs, nowMs: Date.now })

/** The module with which a thread opens a log of its own. */
export const LOG_MODULE = { logModule: ownModuleUrl('src/log/open-log'), logFactory: 'openLog' } as const
