// Named places at which a fault rig ends or stops this process, to see what is there when it starts again. Off, as always outside tests, such a place
// costs a comparison with null.
import { getEnvironmentData, setEnvironmentData } from 'node:worker_threads'

export const FAILPOINTS = [
  /** The request is admitted, no provider is asked yet. */
  'admitted',
  /** More of a stream is waited for. */
  'mid_stream',
  /** The outcome is where its durability says, the client is not told. */
  'settled',
  /** A batch of the spool is gathered, nothing of it is in the file. */
  'spool_before_write',
  /** It is in the file, not synced, and nobody is told. */
  'spool_written',
  /** It is synced, and nobody is told. */
  'spool_synced',
  /** The head of a segment is written under another name. */
  'segment_unnamed',
  /** The sender has read a batch and not sent it. */
  'sender_before_append',
  /** The log has the batch, the watermark does not say so. */
  'sender_appended',
  /** The new watermark stands beside the old one. */
  'watermark_unnamed',
  /** A decision is made and not sent. */
  'control_before_append',
  /** The log has the decision, nobody is told. */
  'control_appended',
  /** A snapshot is whole, under another name. */
  'snapshot_unnamed',
  /** Position and rows of a batch are written, the transaction is open. */
  'projection_written',
  /** The transaction is committed, the worker does not know. */
  'projection_committed',
] as const

export type Failpoint = (typeof FAILPOINTS)[number]

/** `kill`: as `kill -9`. `stop`: as SIGSTOP, until somebody sends SIGCONT. */
const ACTIONS = { kill: 'SIGKILL', stop: 'SIGSTOP' } as const

const FORM = /^([a-z_]+):(kill|stop)@([1-9]\d{0,8})$/
/** Threads that are made later find it there. */
const FOR_THREADS = 'gatelog-failpoint'

let reached: ((name: Failpoint) => void) | null = null

/** A place where the process may be ended. */
export const failpoint = (name: Failpoint): void => {
  if (reached !== null) reached(name)
}

/** `settled:kill@17`: the 17th time that this process, or one thread of it, comes to `settled`. False when the text says nothing like it. */
export const armFailpoint = (text: string): boolean => {
  const [, name, action, times] = FORM.exec(text) ?? []
  if (name === undefined || !FAILPOINTS.some((known) => known === name)) return false
  setEnvironmentData(FOR_THREADS, text)
  let left = Number(times)
  const signal = ACTIONS[action as keyof typeof ACTIONS]
  reached = (at) => {
    if (at === name && --left === 0) process.kill(process.pid, signal)
  }
  return true
}

const given = getEnvironmentData(FOR_THREADS)
if (typeof given === 'string') armFailpoint(given)
