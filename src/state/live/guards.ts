// What must hold of a control topic before anything is served from it: an empty fold would re-open set-up and un-revoke
// keys.
import { CHAIN_ROW } from '../../domain/chain.ts'
import { GENESIS } from '../../domain/kernel/decision.ts'
import { type ChainFold, CONTROL } from '../fold.ts'
import type { Witness } from '../history/snapshot.ts'
import type { ChainPosition } from '../position-witness.ts'

/**
 * The control topic is not the one that was there before, or not of this installation. The message is one line: what,
 * where, what to do. Stops the start.
 */
export class ControlLogRefused extends Error {
  override readonly name = 'ControlLogRefused'
}

/**
 * Of the embedded log that file alone: a backup of the whole folder would take back data keys, and what budgets spent,
 * to the time of the backup.
 */
const RESTORE =
  'restore it from a backup (embedded: log/gateway.control.v1.* in data.dir, instead of all files of that name, ' +
  'and no others: they are newer; Kafka: the topic), append again what data.dir keeps of its end (`gateway log ' +
  'restore`), or move data.dir away to begin anew'

export interface Expected {
  /** `log.kafka.chain`: the chain that the settings name. */
  readonly chainId: string | null
  readonly allowEmpty: boolean
  readonly known: RecordedChain
}

/** What the data folder records of its log beside the snapshot; null: it was never recorded. */
export interface RecordedChain {
  /** `readChainWitness`. */
  readonly chainId: string | null
  /** `readPosition`. */
  readonly position: ChainPosition | null
  /** `readConfirmed`: when the end of the log was last confirmed, Unix milliseconds. */
  readonly confirmedAtMs: number | null
}

/** Why a log that was folded to its end must not be served, or null. */
export const problemOf = (fold: ChainFold, expected: Expected, witness: Witness | null): string | null => {
  const row = fold.state.table('chain').get(CHAIN_ROW)
  if (row === undefined)
    return expected.allowEmpty && fold.counts.forged === 0 ? null : unstarted(fold, expected, witness)
  if (expected.chainId !== null && expected.chainId !== row.chain_id) {
    return (
      `${CONTROL} holds the chain ${row.chain_id}, but log.kafka.chain names ${expected.chainId}: point ` +
      'log.kafka.brokers at the right cluster or correct the setting'
    )
  }
  const known = witness?.chainId ?? expected.known.chainId
  if (known !== null && known !== row.chain_id) {
    return (
      `${CONTROL} holds the chain ${row.chain_id}, but data.dir belongs to ${known}: point at the right log, or ` +
      'give this instance a data.dir of its own'
    )
  }
  const { position } = expected.known
  // A snapshot that is ahead of it is the better witness, and its fold may lack what came before.
  if (position === null || position.next <= (witness?.next ?? 0)) return lostHistory(fold, witness?.tip ?? GENESIS)
  if (fold.next < position.next) {
    return (
      `${CONTROL} ends at ${fold.next}, but data.dir has seen ${position.next} records of it: it was cut, or is an ` +
      `older copy; ${RESTORE}`
    )
  }
  return lostHistory(fold, witness?.tip ?? GENESIS) ?? lostHistory(fold, position.tip)
}

const unstarted = (fold: ChainFold, { known: { chainId } }: Expected, witness: Witness | null): string => {
  if (fold.counts.forged > 0 && fold.counts.counted === 0) {
    return (
      `no record of ${CONTROL} was written with this master key: set security.master_key to the one of this ` +
      'installation'
    )
  }
  if (witness !== null) {
    return `${CONTROL} is empty, but the snapshot in data.dir has ${witness.next} records of it: ${RESTORE}`
  }
  if (chainId !== null) return `${CONTROL} is empty, but data.dir belongs to the chain ${chainId}: ${RESTORE}`
  return (
    `${CONTROL} holds no chain: run \`gateway topics --init\` once, ` +
    'or point log.kafka.brokers at the right cluster'
  )
}

/**
 * Whether a fold of the whole log lacks a decision that is known to have counted, or one that a later record was
 * decided on.
 */
export const lostHistory = (fold: ChainFold, knownTip: string): string | null => {
  const [missing] = fold.missingParents
  if (missing !== undefined) {
    return (
      `offset ${missing[1]} of ${CONTROL} was decided on ${missing[0].slice(0, 12)}, which is nowhere in the log: ` +
      `it lost records; ${RESTORE}`
    )
  }
  if (knownTip === GENESIS || fold.counted.has(knownTip)) return null
  return (
    `${CONTROL} no longer holds the decision ${knownTip.slice(0, 12)}, which this instance has folded: it was ` +
    `truncated, recreated or replaced (it has ${fold.next} records); ${RESTORE}`
  )
}
