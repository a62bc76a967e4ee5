// The actor of decisions from `bootstrap:` of the settings, and how it differs from all other actors.
import type { Actor } from './decision.ts'

export const SEEDER_ACTOR: Actor = { type: 'system', id: 'bootstrap' }

export const isSeeder = ({ type, id }: Actor): boolean => type === SEEDER_ACTOR.type && id === SEEDER_ACTOR.id
