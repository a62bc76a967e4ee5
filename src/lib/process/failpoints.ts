// Named places at which a fault test ends or stops this process, to check what the next start finds. Disarmed, as
// always outside tests, such a place costs a comparison with null.
import { getEnvironmentData, setEnvironmentData } from 'node:worker_threads'

export const FAILPOINTS = [
  /** The request is admitted; no provider has been called. */
  'admitted',
  /** The next part of a stream is awaited. */
  'mid_stream',
  /** The outcome is as durable as configured; the client has no end of the response yet. */
  'settled',
  /** A batch of the spool is gathered; nothing of it is in the file. */
  'spool_before_write',
  /** The batch is in the file, not synced and not acknowledged. */
  'spool_written',
  /** The batch is synced and not acknowledged. */
  'spool_synced',
  /** The head of a segment is written under a temporary name. */
  'segment_unnamed',
  /** The sender has read a batch and not sent it. */
  'sender_before_append',
  /** The log has the batch; the watermark does not include it. */
  'sender_appended',
  /** The new watermark stands beside the old one. */
  'watermark_unnamed',
  /** A decision is made and not sent. */
  'control_before_append',
  /** The log has the decision; it is not acknowledged. */
  'control_appended',
  /** A snapshot is complete, under a temporary name. */
  'snapshot_unnamed',
  /** Position and rows of a batch are written; the transaction is open. */
  'projection_written',
  /** The transaction is committed; the worker has no confirmation. */
  'projection_committed',
] as const

export type Failpoint = (typeof FAILPOINTS)[number]

/** `kill`: as `kill -9`. `stop`: as SIGSTOP, until a SIGCONT. */
const ACTIONS = { kill: 'SIGKILL', stop: 'SIGSTOP' } as const

const FORM = /^([a-z_]+):(kill|stop)@([1-9]\d{0,8})$/
/** Threads that are started later read it from there. */
const FOR_THREADS = 'gatelog-failpoint'

// Mutable: null outside tests, so that a failpoint costs one comparison.
let onReached: ((name: Failpoint) => void) | null = null

/** A place where a fault test may end the process. */
export const failpoint = (name: Failpoint): void => {
  if (onReached !== null) onReached(name)
}

/**
 * Arms one place: `settled:kill@17` acts the 17th time that this process, or one thread of it, reaches `settled`. False
 * for a text of another form.
 */
export const armFailpoint = (text: string): boolean => {
  const [, name, action, times] = FORM.exec(text) ?? []
  if (name === undefined || !FAILPOINTS.some((known) => known === name)) return false
  setEnvironmentData(FOR_THREADS, text)
  let left = Number(times)
  const signal = ACTIONS[action as keyof typeof ACTIONS]
  onReached = (at) => {
    if (at === name && --left === 0) process.kill(process.pid, signal)
  }
  return true
}

const given = getEnvironmentData(FOR_THREADS)
if (typeof given === 'string') armFailpoint(given)
