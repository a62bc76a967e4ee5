// What tells a plan from another one: 32 bits in the record of a request in place of its candidates, their rejections
// and their order (`plan-again.ts` compares them). Pure; whole numbers only.
import type { CatalogueEntry } from '../../state/port.ts'
import type { Plan } from './plan.ts'
import { REJECTED_REASONS, type RejectedReason } from './rejections.ts'

/** FNV-1a. */
const BASIS = 0x811c9dc5
const PRIME = 0x01000193
/** Between the parts of a plan; no number of a part is as large. */
const BREAK = 0xffff

const addText = (hash: number, text: string): number => {
  let next = hash
  for (let i = 0; i < text.length; i++) next = Math.imul(next ^ text.charCodeAt(i), PRIME)
  return next
}

/** A list of candidates stays the same for many requests: its models are digested once. */
const digested = new WeakMap<readonly CatalogueEntry[], number>()

const candidatesDigest = (candidates: readonly CatalogueEntry[]): number => {
  let hash = digested.get(candidates)
  if (hash === undefined) {
    hash = BASIS
    for (const { modelId } of candidates) hash = Math.imul(addText(hash, modelId) ^ BREAK, PRIME)
    digested.set(candidates, hash)
  }
  return hash
}

/** The reasons as numbers. By their names, so that a reason among them later changes no digest. */
const REASON_NUMBERS: ReadonlyMap<RejectedReason, number> = new Map(
  REJECTED_REASONS.map((reason) => [reason, addText(BASIS, reason)]),
)

type DigestedPlan = Pick<Plan, 'candidates' | 'reasons' | 'order' | 'strategy'>

/**
 * Over the models of the candidates in the order of the registry, the reason of each, their order before health, and
 * the strategy.
 */
export const planDigest = ({ candidates, reasons, order, strategy }: DigestedPlan): number => {
  let hash = addText(candidatesDigest(candidates), strategy)
  for (let i = 0; i < reasons.length; i++) {
    const reason = reasons[i]!
    hash = Math.imul(hash ^ (reason === null ? 0 : REASON_NUMBERS.get(reason)!), PRIME)
  }
  hash = Math.imul(hash ^ BREAK, PRIME)
  for (let i = 0; i < order.length; i++) hash = Math.imul(hash ^ order[i]!, PRIME)
  return (hash ^ (hash >>> 15)) >>> 0
}
