// The part of `gateway verify` that checks whether sealed content can still be opened: each secret of the configuration
// has its data key in `gateway.keys.v1`.
import type { ControlState } from '../../domain/control.ts'
import { readEnvelope } from '../../log/envelope.ts'
import { type EventLog, LogDamaged, LogGap, type LogRecord, LogReplaced, LogUnavailable } from '../../log/port.ts'
import { TOPICS } from '../../log/topics.ts'
import { isInstallationKey, wrappedFrom } from '../../state/data-keys/wrapped-keys.ts'
import type { Finding } from './verify.ts'

const KEYS = TOPICS.keys.name
/**
 * Where compaction took the last records, their offsets never arrive: after so long without records the reader stops.
 */
const SILENT_MS = 5_000
const MAX_SHOWN = 20

export interface KeysToVerify {
  readonly log: EventLog
  readonly signal: AbortSignal
  readonly silentMs?: number
}

/**
 * Reads the present keys, before the chain is folded. What it returns compares them with the state of that fold: a
 * secret that was replaced meanwhile had its key before, and one that was sealed meanwhile has its key behind what was
 * read.
 */
export const verifyKeys = async (
  keys: KeysToVerify,
): Promise<(state: Pick<ControlState, 'table'>) => Promise<Finding>> => {
  const held = new Set<string>()
  const before = await trying(() =>
    readOn(keys, 0, ({ key, value }) => {
      const keyId = keyOf(key, value)
      if (keyId !== null) held.add(keyId)
      else if (key !== null && value === null) held.delete(key)
    }),
  )
  return async (state) => {
    if (typeof before === 'string') return unread(before)
    const count = held.size
    const after = await trying(() =>
      readOn(keys, before, ({ key, value }) => {
        const keyId = keyOf(key, value)
        if (keyId !== null) held.add(keyId)
      }),
    )
    return typeof after === 'string' ? unread(after) : compared(state, held, count)
  }
}

/** The data key that a record holds; null: a tombstone, a key of the installation, or a foreign record. */
const keyOf = (key: string | null, value: Uint8Array | null): string | null => {
  if (key === null || value === null || isInstallationKey(key)) return null
  return wrappedFrom(readEnvelope(value)?.data)?.key_id === key ? key : null
}

/** Every record up to the present end; returns where the next reading begins. */
const readOn = async (
  { log, signal, silentMs = SILENT_MS }: KeysToVerify,
  from: number,
  take: (record: LogRecord) => void,
): Promise<number> => {
  const end = await log.end(KEYS, 0)
  const silence = new AbortController()
  let timer = setTimeout(() => silence.abort(), silentMs)
  let next = from
  try {
    if (next < end)
      for await (const batch of log.read(KEYS, 0, from, AbortSignal.any([signal, silence.signal]))) {
        for (const record of batch) take(record)
        next = batch.at(-1)!.offset + 1
        if (next >= end) break
        clearTimeout(timer)
        timer = setTimeout(() => silence.abort(), silentMs)
      }
  } finally {
    clearTimeout(timer)
  }
  signal.throwIfAborted()
  if (next < end && !log.health().ok) throw new LogUnavailable(`${KEYS} was read up to ${next} of ${end}`)
  return Math.max(next, end)
}

const trying = async (read: () => Promise<number>): Promise<number | string> => {
  try {
    return await read()
  } catch (error) {
    const isOfLog = [LogUnavailable, LogReplaced, LogGap, LogDamaged].some((kind) => error instanceof kind)
    if (!isOfLog) throw error
    return (error as Error).message
  }
}

const unread = (message: string): Finding => ({
  title: KEYS,
  rows: [],
  problems: [`${KEYS} cannot be read: ${message}`],
  warnings: [],
})

const compared = (state: Pick<ControlState, 'table'>, held: ReadonlySet<string>, count: number): Finding => {
  const lacking: string[] = []
  let secrets = 0
  const look = (keyId: string, what: string, mend: string) => {
    secrets++
    if (!held.has(keyId)) lacking.push(`${KEYS} lacks the data key of ${what}: restore the topic, or ${mend}`)
  }
  for (const [id, { name, credential }] of state.table('providers').rows())
    if (credential !== null) look(credential.key_id, `the credential of provider ${name} (${id})`, 'set it anew')
  for (const [id, { key_id }] of state.table('operators').rows())
    look(key_id, `operator ${id}, who cannot sign in`, 'delete this operator and make another')
  const more = lacking.length - MAX_SHOWN
  return {
    title: KEYS,
    rows: [
      ['data keys', String(count)],
      ['sealed secrets', String(secrets)],
      ['secrets without their key', String(lacking.length)],
    ],
    problems: more > 0 ? [...lacking.slice(0, MAX_SHOWN), `${KEYS} lacks ${more} more data keys`] : lacking,
    warnings: [],
  }
}
