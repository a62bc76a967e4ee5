// In whose name `bootstrap:` of the settings is decided, and how it is told from everybody else.
import type { Actor } from './decision.ts'

export const SEEDER_ACTOR: Actor = { type: 'system', id: 'bootstrap' }

export const isSeeder = ({ type, id }: Actor): boolean => type === SEEDER_ACTOR.type && id === SEEDER_ACTOR.id
