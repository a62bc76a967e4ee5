// Turns: the courtesy that keeps a writer with a longer way to the log from starving. A turn is a record of the control
// topic that is no decision: it has no version, so the counting rule gives it the verdict unreadable, and it can never
// become part of the chain.
import { hmacHex, sameText } from '../lib/crypto/digest.ts'
import { TurnOrder } from './turn-order.ts'

/** Losses in a row after which an instance requests a turn, and how long the others let it go first. */
export const TURN_AFTER_LOSSES = 3
export const TURN_MS = 500
const MAX_TURNS = 64
const MAX_TURN_BYTES = 512

export interface Turn {
  readonly instance: string
  readonly nonce: string
}

export const writeTurn = ({ instance, nonce }: Turn, macKey: Uint8Array): Uint8Array => {
  const body = JSON.stringify({ turn: { instance, nonce } }).slice(0, -1)
  return Buffer.from(`${body},"mac":"${hmacHex(macKey, body)}"}`)
}

/** The turn in these bytes, or null. Only for records with the verdict unreadable. */
export const readTurn = (bytes: Uint8Array, macKey: Uint8Array): Turn | null => {
  if (bytes.length > MAX_TURN_BYTES) return null
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('utf8')
  const end = text.lastIndexOf(',"mac":"')
  if (!text.startsWith('{"turn":') || end < 0) return null
  if (!sameText(text.slice(end + 8, -2), hmacHex(macKey, text.slice(0, end)))) return null
  try {
    const { turn } = JSON.parse(text) as { turn?: Partial<Turn> }
    return typeof turn?.instance === 'string' && typeof turn.nonce === 'string'
      ? { instance: turn.instance, nonce: turn.nonce }
      : null
  } catch {
    return null
  }
}

/**
 * The instance whose turn it is, by the records folded here. A turn ends with the next decision of its instance that
 * counts, or after its time.
 */
export class Turns {
  #waiting: { instance: string; nonce: string; untilMs: number }[] = []
  readonly #rotation: TurnOrder

  /** `nowMs`: a clock that is never set back. */
  constructor(readonly nowMs: () => number) {
    this.#rotation = new TurnOrder(nowMs)
  }

  add({ instance, nonce }: Turn): void {
    if (this.#waiting.some((turn) => turn.instance === instance) || this.#waiting.length === MAX_TURNS) return
    this.#waiting.push({ instance, nonce, untilMs: this.nowMs() + TURN_MS })
  }

  /** Whether that turn was folded and is not over. */
  has(nonce: string): boolean {
    return this.#waiting.some((turn) => turn.nonce === nonce)
  }

  /** A decision of that instance was folded, at that log time, and counts or has lost. */
  decided(by: string | null, logAtMs: number, counts: boolean): void {
    if (by === null) return
    this.#rotation.wrote(by, logAtMs, counts)
    if (counts && this.#waiting.length > 0) this.#waiting = this.#waiting.filter(({ instance }) => instance !== by)
  }

  /** Milliseconds that this instance should hold its appends; 0: go on. */
  holdMs(instance: string): number {
    const now = this.nowMs()
    this.#waiting = this.#waiting.filter(({ untilMs }) => untilMs > now)
    const first = this.#waiting[0]
    if (first === undefined) return this.#rotation.holdMs(instance)
    return first.instance === instance ? 0 : first.untilMs - now
  }
}
