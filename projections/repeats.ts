// What a reader has applied already: a sender ships each process start in order, so what is not above the highest
// sequence is a repeat.
import type { Origin } from '../src/log/envelope.ts'

/** `<instance> <epoch>` -> the highest sequence of it that was applied, in one partition. */
export type AppliedSequences = Map<string, number>

export const processStart = ({ instance, epoch }: Pick<Origin, 'instance' | 'epoch'>): string => `${instance} ${epoch}`

/** Whether a record was applied before. If not, it is recorded as applied. */
export const isRepeat = (applied: AppliedSequences, origin: Origin): boolean => {
  const name = processStart(origin)
  if (origin.sequence <= (applied.get(name) ?? -1)) return true
  applied.set(name, origin.sequence)
  return false
}
