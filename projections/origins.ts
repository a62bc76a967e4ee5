// Which records of each process start a topic holds. An instance numbers them from 0 by one: a missing number is a
// record that was lost.
import type { Origin } from '../src/log/envelope.ts'

/** More than a sender has under way at once: its newest records may stand in one partition and not yet in another. */
const UNDER_WAY = 1_024
/** Pieces of one process start that are remembered apart. */
const MAX_PIECES = 10_000

interface ProcessStart {
  /** `[from, to)`, ascending, apart. */
  readonly pieces: [number, number][]
  readonly partitions: Set<number>
}

export class Origins {
  readonly #starts = new Map<string, ProcessStart>()

  note({ instance, epoch, sequence }: Origin, partition: number): void {
    const name = `${instance} ${epoch}`
    const start = this.#starts.get(name) ?? { pieces: [], partitions: new Set() }
    this.#starts.set(name, start)
    start.partitions.add(partition)
    add(start.pieces, sequence)
  }

  /** Whether a record is there; null when the known records of its process start begin after it. */
  has({ instance, epoch, sequence }: Origin): boolean | null {
    const pieces = this.#starts.get(`${instance} ${epoch}`)?.pieces ?? []
    const first = pieces[0]
    if (first === undefined || sequence < first[0]) return null
    return pieces.some(([from, to]) => from <= sequence && sequence < to)
  }

  /**
   * What is lacking, a line each. `trimmed`: the topic has deleted old records somewhere, so what stands in several
   * partitions may be deleted in one of them.
   */
  gaps(topic: string, trimmed: boolean): readonly string[] {
    return [...this.#starts].flatMap(([name, { pieces, partitions }]) => {
      if (trimmed && partitions.size > 1) return []
      const [instance, epoch] = name.split(' ')
      const last = pieces.at(-1)!
      return pieces.slice(1).flatMap(([from], at) => {
        const before = pieces[at]![1]
        if (partitions.size > 1 && before > last[1] - UNDER_WAY) return []
        return [`${topic} lacks records ${before} to ${from - 1} of instance ${instance}, process start ${epoch}`]
      })
    })
  }
}

/** From the end: records come nearly in order. */
const add = (pieces: [number, number][], sequence: number): void => {
  let at = pieces.length
  while (at > 0 && pieces[at - 1]![0] > sequence) at--
  const before = pieces[at - 1]
  if (before !== undefined && sequence < before[1]) return
  const after = pieces[at]
  const joinsBefore = before?.[1] === sequence
  const joinsAfter = after?.[0] === sequence + 1
  if (joinsBefore && joinsAfter) {
    before![1] = after![1]
    pieces.splice(at, 1)
  } else if (joinsBefore) before![1] = sequence + 1
  else if (joinsAfter) after![0] = sequence
  else if (pieces.length < MAX_PIECES) pieces.splice(at, 0, [sequence, sequence + 1])
}
