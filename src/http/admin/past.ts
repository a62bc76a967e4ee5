// Runs in the history thread: serves a configuration read with the routes of the present, on a state of the past.
import type { ControlState } from '../../domain/control.ts'
import { ownModuleUrl } from '../../lib/own-files.ts'
import type { PastPoint } from '../../state/history/history-port.ts'
import { createSteering } from '../../state/indexes/live-steering.ts'
import type { LiveState } from '../../state/port.ts'
import { GatewayError } from '../../wire/errors.ts'
import { gatewayErrorOf } from '../envelope.ts'
import type { PastRead, PastReply } from './as-of.ts'
import { formatted } from './format.ts'
import { type PlanRead, type PlanReply, planOfPast } from './past-plan.ts'
import { type AdminDeps, configurationRoutes } from './runner.ts'

/** The module that the history thread imports to read the past. */
export const PAST_READER = { readerModule: ownModuleUrl('src/http/admin/past'), readerFunction: 'readPast' } as const

/** The response of the read, or its error. Never throws. */
export const readPast = async (
  state: ControlState,
  point: PastPoint,
  read: PastRead | PlanRead,
): Promise<PastReply | PlanReply> => {
  try {
    if ('record' in read) return planOfPast(state, point, read)
    const route = configurationRoutes(pastDeps(state, point, read)).find(
      ({ method, path }) => method === 'GET' && path === read.path,
    )
    if (route === undefined) throw new Error(`no configuration read has the path ${read.path}`)
    const { params, query, principal, format } = read
    const request = new Request('http://past.invalid/')
    const intent = { cause: null, ifMatch: null }
    const answer = await route.handle({
      request,
      principal,
      params,
      query,
      body: null,
      intent,
      principalNow: () => principal,
    })
    const text = route.rows === null ? JSON.stringify(answer.body) : formatted(answer.body, route.rows, format)
    return { kind: 'answer', status: answer.status ?? route.successStatus, text }
  } catch (error) {
    const { code, message, status, type, param } = gatewayErrorOf(error)
    return { kind: 'error', code, message, status, type, param }
  }
}

/**
 * The dependencies of the routes for a past state: the state, its time, and null for what exists only in the present
 * (health, adapters, last uses). Every other dependency has no past, and its use is refused by name.
 */
const pastDeps = (state: ControlState, { atMs }: PastPoint, { given, usernames }: PastRead): AdminDeps => {
  const live: Pick<LiveState, 'control' | 'subscribe' | 'refused'> = {
    control: state,
    refused: new Set(),
    subscribe: (listener) => {
      listener({ changes: [], refused: [] })
      return () => {}
    },
  }
  const known = {
    live,
    steering: createSteering(live),
    nowMs: () => atMs,
    adapterReady: () => null,
    healthOf: () => null,
    operators: { usernameOf: ({ id }: { readonly id: string }) => usernames[id] ?? null },
    budgets: { standing: () => null, caughtUp: () => Promise.resolve(false) },
    lastUses: { lastUsedAt: () => null },
    furtherRoutes: [],
  }
  return { ...Object.fromEntries(given.map((name) => [name, absent(name)])), ...known } as unknown as AdminDeps
}

/** May be passed on and read as an object; every call of it is refused. */
const absent = (name: string): unknown =>
  new Proxy(() => undefined, {
    get: (_, member) => (typeof member === 'string' ? absent(`${name}.${member}`) : undefined),
    apply: () => {
      throw new GatewayError(
        'invalid_request',
        `"as_of": what this shows of the present (${name}) is not known of the past`,
        {
          param: 'as_of',
        },
      )
    },
  })
