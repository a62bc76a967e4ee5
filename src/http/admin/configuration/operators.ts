// `/admin/v1/operators`: the operators that may sign in to the console. Names are personal data: visible with `*` only,
// and erased with their operator.

import { decideOperator, type OperatorRow } from '../../../domain/access/operator.ts'
import { nameOf, Password, requirePassword, Username } from '../../../domain/access/password-policy.ts'
import type { ControlReader } from '../../../domain/control.ts'
import { closed } from '../../../domain/kernel/fields.ts'
import { Rejection } from '../../../domain/kernel/rejection.ts'
import { hmacHex } from '../../../lib/crypto/digest.ts'
import type { IdPrefix } from '../../../lib/crypto/ids.ts'
import { t } from '../../../lib/schema/schema.ts'
import type { Commit, CommitResult, LiveState } from '../../../state/port.ts'
import type { Operators } from '../../../upkeep/console/operators.ts'
import { GatewayError } from '../../../wire/errors.ts'
import type { Clients } from '../../clients.ts'
import { deletion, OperatorView } from '../answers/resources.ts'
import { listed, Paging } from '../list.ts'
import { type AdminCall, type AdminRoute, route } from '../route.ts'
import { precheck, rowAfter, write, writtenRow } from '../write.ts'

export interface OperatorDeps {
  readonly live: Pick<LiveState, 'control'>
  readonly commit: Commit
  readonly operators: Operators
  readonly clients: Clients
  readonly causeKey: Uint8Array
  newId(prefix: IdPrefix): string
}

const SUPERUSER = ['*'] as const
const Repeated = t.String({ maxLength: 2_048 })

const NewOperator = closed(t.Object({ username: Username, password: Password, confirm: t.Optional(Repeated) }))
const NewPassword = closed(
  t.Object({ password: Password, confirm: t.Optional(Repeated), current_password: t.Optional(Password) }),
)

const operatorOf = (state: ControlReader, id: string): OperatorRow => {
  const row = state.table('operators').get(id)
  if (row === undefined) throw new Rejection('not_found', `no operator has the id "${id}"`)
  return row
}

/** The view never has a digest, and of the sealed fields only the name. */
const viewOf = (row: OperatorRow, { live, operators }: OperatorDeps) => {
  const { id, created_at, updated_at, revision, password_changed_at } = row
  const sessions = live.control.table('sessions').find('operator', id).length
  return { id, username: operators.usernameOf(row), password_changed_at, sessions, created_at, updated_at, revision }
}

/**
 * The call with a digest of its body that leaves out the passwords: the digest stays in the log for ever, and is
 * cheaper to guess at than the sealed hash.
 */
const withoutPasswords = <Body extends { password: string; confirm?: string; current_password?: string }>(
  call: AdminCall<Body>,
  causeKey: Uint8Array,
) => {
  const { cause } = call.intent
  if (cause === null) return call
  const { password: _, confirm: __, current_password: ___, ...rest } = call.body
  const { search } = new URL(call.request.url)
  const body = hmacHex(causeKey, JSON.stringify([search, JSON.stringify(rest)]))
  return { ...call, intent: { ...call.intent, cause: { id: cause.id, body } } }
}

/**
 * The row for the response to a repeat. Throws 409 when the first request set another password. The digest of the body
 * does not cover the passwords, but the hash that the first request stored does. Where that hash is erased (changed
 * again, or the operator deleted), the comparison is impossible, and a success would claim that this password is set:
 * 409 too. `current_password` cannot be compared at all.
 */
const repeatedRow = async (
  result: CommitResult,
  { password, confirm = password }: { password: string; confirm?: string },
  { operators }: OperatorDeps,
): Promise<OperatorRow> => {
  const row = rowAfter(result, 'operators')
  const isSame = row !== undefined && confirm === password && (await operators.isPasswordOf(row, password))
  if (isSame) return row
  const message = 'this Idempotency-Key was used with another password, or the password was changed or erased since'
  throw new Rejection('conflict', message, 'Idempotency-Key')
}

/** The row for the response to a write that may be a repeat. */
const rowOfWrite = async (result: CommitResult, body: { password: string; confirm?: string }, deps: OperatorDeps) =>
  result.repeated ? await repeatedRow(result, body, deps) : writtenRow(result, 'operators')

const listOperators = (deps: OperatorDeps): AdminRoute =>
  route({
    method: 'GET',
    path: '/operators',
    scopes: SUPERUSER,
    summary: 'List the operators of the console',
    rows: 'operators',
    query: t.Object({ ...Paging }),
    answer: OperatorView,
    handle({ query }) {
      const rows = [...deps.live.control.table('operators').rows()].map(([, row]) => row)
      return { body: listed('operators', rows, query, (row) => viewOf(row, deps)) }
    },
  })

const getOperator = (deps: OperatorDeps): AdminRoute =>
  route({
    method: 'GET',
    path: '/operators/:id',
    scopes: SUPERUSER,
    summary: 'One operator',
    answer: OperatorView,
    handle: ({ params }) => ({ body: viewOf(operatorOf(deps.live.control, params.id), deps) }),
  })

const createOperator = (deps: OperatorDeps): AdminRoute =>
  route({
    method: 'POST',
    path: '/operators',
    scopes: SUPERUSER,
    summary: 'Make an operator, who can then sign in; the first one closes set-up',
    body: NewOperator,
    status: 201,
    answer: OperatorView,
    async handle(call) {
      const { username, password, confirm } = call.body
      const name = nameOf(username)
      requirePassword(password, name, confirm)
      const id = deps.newId('op')
      const result = await deps.operators.sealed(id, name, password, (secrets) =>
        write(
          deps.commit,
          withoutPasswords(call, deps.causeKey),
          () => undefined,
          (state) => decideOperator(state, { do: 'create', id, ...secrets }),
        ),
      )
      return { body: viewOf(await rowOfWrite(result, call.body, deps), deps), revision: result.revision }
    },
  })

/**
 * An operator who changes the own password proves to know it: an unlocked screen is not enough. Throws 403 naming the
 * field.
 */
const requireCurrent = async (call: AdminCall, row: OperatorRow, current: string | undefined, deps: OperatorDeps) => {
  const { type, id } = call.principal.actor
  if (type !== 'operator' || id !== row.id) return // with `*`, sets the password of another operator
  const refused = (message: string) => new GatewayError('permission_error', message, { param: 'current_password' })
  if (current === undefined) throw refused('"current_password" is needed to change your own password')
  const username = deps.operators.usernameOf(row) ?? ''
  const { operator } = await deps.operators.check(username, current, deps.clients(call.request).address)
  if (operator?.id !== row.id) throw refused('"current_password" is not right')
}

const changePassword = (deps: OperatorDeps): AdminRoute =>
  route({
    method: 'PUT',
    path: '/operators/:id/password',
    scopes: SUPERUSER,
    summary: 'Set the password of an operator (your own: with `current_password`); its other sessions end',
    body: NewPassword,
    answer: OperatorView,
    async handle(call) {
      const id = call.params.id
      const withoutSecrets = withoutPasswords(call, deps.causeKey)
      // First of all: at a repeat, the current password has changed already, and the operator may exist only at the
      // log's end.
      const known: { row: OperatorRow | null } = { row: null }
      const before = await precheck(
        deps.commit,
        withoutSecrets,
        (state) => state.table('operators').get(id),
        (state) => {
          known.row = operatorOf(state, id)
        },
      )
      const row = before.repeated ? await repeatedRow(before, call.body, deps) : known.row!
      if (before.repeated) return { body: viewOf(row, deps), revision: before.revision }
      const username = deps.operators.usernameOf(row)
      if (username === null) throw new Rejection('not_found', `the operator "${id}" was erased`)
      const { password, confirm, current_password } = call.body
      requirePassword(password, username, confirm)
      await requireCurrent(call, row, current_password, deps)
      const kept_session_id = call.principal.sessionId ?? null
      const changed = { do: 'change_password', id, seen_key_id: row.key_id, kept_session_id } as const
      const result = await deps.operators.sealed(id, username, password, (secrets) =>
        write(
          deps.commit,
          withoutSecrets,
          (state) => state.table('operators').get(id),
          (state) => decideOperator(state, { ...changed, ...secrets }),
        ),
      )
      await eraseBefore(result, deps)
      return { body: viewOf(await rowOfWrite(result, call.body, deps), deps), revision: result.revision }
    },
  })

/** After this, name and password cannot be opened again, wherever copies of the log are. */
const eraseBefore = async (result: CommitResult, { operators }: OperatorDeps): Promise<void> => {
  if (result.repeated) return
  const before = result.changes.find(({ table }) => table === 'operators')?.before as OperatorRow | null | undefined
  if (before != null) await operators.erase(before.key_id)
}

const deleteOperator = (deps: OperatorDeps): AdminRoute =>
  route({
    method: 'DELETE',
    path: '/operators/:id',
    scopes: SUPERUSER,
    summary: 'Delete an operator, end its sessions and erase its name and password for good; set-up stays closed',
    answer: deletion('sessions_closed'),
    async handle(call) {
      const id = call.params.id
      const result = await write(
        deps.commit,
        call,
        (state) => state.table('operators').get(id),
        (state) => decideOperator(state, { do: 'delete', id }),
      )
      await eraseBefore(result, deps)
      return {
        body: { deleted: true, id, sessions_closed: result.removed.sessions ?? 0 },
        revision: result.revision,
      }
    },
  })

export const operatorRoutes = (deps: OperatorDeps): AdminRoute[] => [
  listOperators(deps),
  getOperator(deps),
  createOperator(deps),
  changePassword(deps),
  deleteOperator(deps),
]
