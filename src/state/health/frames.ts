// Frames of the candidates' observations, and the events from which the same frames can be made again.
import { FRAME_ROWS, type FrameRow, type FrameTaken, type HealthEvent } from '../../domain/events/health.ts'
import { type Frame, type Signals, UNOBSERVED } from './frame.ts'

const CODES = { closed: 0, open: 1, half_open: 2 } as const
const STATES = ['closed', 'open', 'half_open'] as const
/** Each so many frames are recorded whole, so that a reader need not begin at the first. */
export const WHOLE_EVERY = 60

export const frameRow = (modelId: string, signals: Signals): FrameRow => [
  modelId,
  CODES[signals.breaker],
  signals.ejected,
  signals.coolingDown,
  signals.health,
  signals.ttftMs,
  signals.e2eMs,
  signals.tokensPerSecond,
  signals.inFlight,
  signals.headroom,
  signals.feedback,
]

export const signalsOf = (row: FrameRow): Signals => ({
  breaker: STATES[row[1]],
  ejected: row[2],
  coolingDown: row[3],
  health: row[4],
  ttftMs: row[5],
  e2eMs: row[6],
  tokensPerSecond: row[7],
  inFlight: row[8],
  headroom: row[9],
  feedback: row[10],
})

export type SignalRows = ReadonlyMap<string, Signals>

export const frameOf = (number: number, atMs: number, rows: SignalRows): Frame => ({
  number,
  atMs,
  signals: (modelId) => rows.get(modelId) ?? UNOBSERVED,
})

/**
 * The events of one frame: a whole one (now and then, and when it `restates` all) from all its rows, another from those
 * that changed.
 */
export const frameEvents = (
  number: number,
  atMs: number,
  rows: SignalRows,
  changed: SignalRows,
  restates = false,
): HealthEvent[] => {
  const whole = restates || number % WHOLE_EVERY === 1
  const written = [...(whole ? rows : changed)].map(([modelId, signals]) => frameRow(modelId, signals))
  const parts = Math.max(1, Math.ceil(written.length / FRAME_ROWS))
  return Array.from({ length: parts }, (_, i) => ({
    type: 'frame.taken',
    subject: null,
    data: {
      number,
      at_ms: atMs,
      whole,
      part: i + 1,
      parts,
      candidates: written.slice(i * FRAME_ROWS, (i + 1) * FRAME_ROWS),
    },
  }))
}

/** Rows after one part of a frame, given those before it: the fold of a log reader. A whole frame starts anew. */
export const foldFrame = (rows: SignalRows, { whole, part, candidates }: FrameTaken): SignalRows => {
  const next = new Map(whole && part === 1 ? [] : rows)
  for (const row of candidates) next.set(row[0], signalsOf(row))
  return next
}
