// Operators: the people who sign in to the console. Name and password hash are sealed under a data key of their own.
// The log holds the id of an operator, and finds it by a keyed digest of its name. Names and fields of the events are
// stored for ever.
import { type Static, t } from '../../lib/schema/schema.ts'
import type { ControlReader } from '../control.ts'
import { type Aggregate, changesOf, eventType, type Stamps } from '../kernel/aggregate.ts'
import type { EventRecord } from '../kernel/decision.ts'
import { Id } from '../kernel/fields.ts'
import { Rejection } from '../kernel/rejection.ts'
import { sessionsClosedOf } from './session.ts'
import { setupIsOpen } from './setup.ts'

const NameDigest = t.String({ minLength: 1, maxLength: 128 })
const Sealed = { key_id: Id, sealed: t.String({ minLength: 1, maxLength: 8_192 }) }

export const OperatorCreated = t.Object({ id: Id, name_digest: NameDigest, ...Sealed })
/** Ends the sessions of the operator, but for the one of the request. */
export const OperatorPasswordChanged = t.Object({
  id: Id,
  name_digest: NameDigest,
  ...Sealed,
  kept_session_id: t.Optional(Id),
})
export const OperatorDeleted = t.Object({ id: Id })

export interface OperatorRow extends Stamps {
  readonly id: string
  /** HMAC of the normalised name. */
  readonly name_digest: string
  /**
   * The data key that seals `sealed` (name and password hash); erased with the operator, replaced with the password.
   */
  readonly key_id: string
  readonly sealed: string
  readonly password_changed_at: string
}

/** A bound of what every instance holds in memory. */
export const MAX_OPERATORS = 1_000

const rows = changesOf<OperatorRow>('operators')
const subject = (data: { id: string }): string => data.id

export const operator: Aggregate<OperatorRow, ControlReader> = {
  table: 'operators',
  indexes: { name: (row) => row.name_digest },
  events: {
    'operator.created': eventType({
      schema: OperatorCreated,
      since: 3,
      action: 'create',
      resource: 'operator',
      subject,
    }),
    'operator.password_changed': eventType({
      schema: OperatorPasswordChanged,
      since: 3,
      action: 'rotate',
      resource: 'operator',
      subject,
    }),
    'operator.deleted': eventType({
      schema: OperatorDeleted,
      since: 3,
      action: 'delete',
      resource: 'operator',
      subject,
    }),
  },
  evolve(state, { type, data }, meta) {
    const before = state.table('operators').get(data.id as string)
    if (type === 'operator.created') {
      const created = data as Static<typeof OperatorCreated>
      return before === undefined ? rows.created(created.id, { ...created, password_changed_at: meta.at }, meta) : []
    }
    if (before === undefined) return []
    if (type === 'operator.deleted') {
      return [...rows.removed(before.id, before), ...sessionsClosedOf(state, before.id, null)]
    }
    const { kept_session_id = null, ...changed } = data as Static<typeof OperatorPasswordChanged>
    return [
      ...rows.changed(before.id, before, { ...changed, password_changed_at: meta.at }, meta),
      ...sessionsClosedOf(state, before.id, kept_session_id),
    ]
  },
}

interface Secrets {
  /** Digests of the name under every key in use; the first, of the current key, is stored. */
  readonly name_digests: readonly [string, ...string[]]
  readonly key_id: string
  readonly sealed: string
}

export type OperatorCommand =
  /** For an unauthenticated caller: only while no operator was ever created. */
  | ({ do: 'set_up'; id: string } & Secrets)
  | ({ do: 'create'; id: string } & Secrets)
  /** `seen_key_id`: the data key of the row that the caller read name and hash from. */
  | ({ do: 'change_password'; id: string; seen_key_id: string; kept_session_id: string | null } & Secrets)
  | { do: 'delete'; id: string }

const create = (
  state: ControlReader,
  { id, name_digests, key_id, sealed }: { id: string } & Secrets,
): EventRecord[] => {
  if (operatorNamed(state, name_digests) !== undefined)
    throw new Rejection('conflict', 'an operator with this name exists already', 'username')
  if (state.table('operators').size >= MAX_OPERATORS)
    throw new Rejection('conflict', `at most ${MAX_OPERATORS} operators may exist; delete some first`)
  const created = { type: 'operator.created', data: { id, name_digest: name_digests[0], key_id, sealed } }
  return setupIsOpen(state) ? [created, { type: 'setup.completed', data: { operator_id: id } }] : [created]
}

export const decideOperator = (state: ControlReader, command: OperatorCommand): EventRecord[] => {
  if (command.do === 'set_up' && !setupIsOpen(state)) throw setupClosed()
  if (command.do === 'set_up' || command.do === 'create') return create(state, command)
  const row = state.table('operators').get(command.id)
  if (row === undefined) throw new Rejection('not_found', `no operator has the id "${command.id}"`)
  if (command.do === 'delete') return [{ type: 'operator.deleted', data: { id: row.id } }]
  const { id, seen_key_id, kept_session_id, name_digests, key_id, sealed } = command
  if (row.key_id !== seen_key_id)
    throw new Rejection('conflict', 'the password of this operator was changed by somebody else just now; try again')
  const kept = kept_session_id === null ? {} : { kept_session_id }
  return [{ type: 'operator.password_changed', data: { id, name_digest: name_digests[0], key_id, sealed, ...kept } }]
}

export const setupClosed = (): Rejection =>
  new Rejection('forbidden', 'set-up is closed: an operator exists or existed; another one is made by an operator')

/** The operator whose name has one of these digests. */
export const operatorNamed = (state: ControlReader, nameDigests: readonly string[]): OperatorRow | undefined => {
  const operators = state.table('operators')
  for (const digest of nameDigests) {
    const [id] = operators.find('name', digest)
    if (id !== undefined) return operators.get(id)
  }
  return undefined
}
