// Rules of vendors about requests as data: each with its source, and with requests that are against it, so that a test
// can send against every one of them.
import { isObject, type Json, need } from './conversation.ts'
import type { Speaker } from './wire.ts'

export interface Rule {
  readonly name: string
  /** The vendor's document that has it. */
  readonly source: string
  /** The models that it is about. Absent: all of the wire. */
  readonly appliesTo?: (speaker: Speaker) => boolean
  readonly holds: (body: Json, speaker: Speaker) => boolean
  /** The vendor's words. */
  readonly message: string
  /** Members of a body of the vendor's wire that break it. */
  readonly breaks: Json
  /** Members of a client's request that lead to such a body unless they are changed. */
  readonly against: Json
  /** Why the gateway relays the refusal. Absent: it never sends such a body. */
  readonly onPurpose?: string
}

/** Refuses a body that is against one of them. */
export const checkRules = (rules: readonly Rule[], body: Json, speaker: Speaker): void => {
  for (const { appliesTo, holds, message } of rules)
    need(appliesTo?.(speaker) === false || holds(body, speaker), message)
}

export const listOf = (value: unknown): readonly Json[] => (Array.isArray(value) ? value.filter(isObject) : [])
export const objectOf = (value: unknown): Json => (isObject(value) ? value : {})
export const isBlank = (value: unknown): boolean => typeof value === 'string' && value.trim() === ''

/** Every object in a value, itself included. */
export const objectsIn = (value: unknown): readonly Json[] => {
  if (Array.isArray(value)) return value.flatMap(objectsIn)
  return isObject(value) ? [value, ...Object.values(value).flatMap(objectsIn)] : []
}
