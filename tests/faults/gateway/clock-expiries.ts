// What ends at a time, while the wall clock of one of two gateways jumps: deadlines and windows of budgets, which must
// not be affected, and keys, which end at a date and hence by the clock. Counts how many end early, by the clock that
// does not jump, and how many late.
import { eventually } from '../../services/eventually.ts'
import type { GatewayProcess } from '../../services/gateway.ts'

export const HUNG = 'hung'
export const PRICED = 'priced'
export const HUNG_MS = 1_000
const EARLY_MS = 20
/** What a busy machine may add. */
const LATE_MS = 500
const KEY_LIVES_MS = 2_000
/** A key is looked for so long after its end. */
const KEY_LATE_MS = 1_500
const ASK_EVERY_MS = 50
const TOKENS = 100
/** Until its clock has jumped: it looks ten times a second. */
const JUMPED_MS = 200

export interface Ended {
  early: number
  late: number
  n: number
  /** The most that one was early or late by. */
  mostMs: number
}

const nothing = (): Ended => ({ early: 0, late: 0, n: 0, mostMs: 0 })

const note = (ended: Ended, offByMs: number): void => {
  ended.n++
  if (offByMs < -EARLY_MS) ended.early++
  if (offByMs > LATE_MS) ended.late++
  ended.mostMs = Math.max(ended.mostMs, Math.abs(offByMs))
}

export interface Expiries {
  readonly deadlines: Ended
  /** By gateway, in the order in which they were given. */
  readonly keys: readonly Ended[]
  /** Of a budget of a day that was spent: what was let through all the same. */
  readonly windows: { asked: number; opened: number }
  /** Begins what is to end, jumps, and waits for the ends. */
  during(jump: () => void): Promise<void>
}

const admin = async (gateway: GatewayProcess, method: string, path: string, body: unknown): Promise<unknown> => {
  const answer = await gateway.request(`/admin/v1${path}`, { method, body })
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`)
  return answer.json()
}

const chat = async (gateway: GatewayProcess, model: string): Promise<number> => {
  const messages = [{ role: 'user', content: 'What time is it?' }]
  const body = { model, messages, max_tokens: TOKENS }
  const answer = await gateway.request('/v1/chat/completions', { body, signal: AbortSignal.timeout(30_000) })
  await answer.arrayBuffer()
  return answer.status
}

/** How far from the end of the key the gateway began to refuse it; requests go on until it does, or long enough. */
const endOfKey = async (gateway: GatewayProcess, key: string, endsMs: number): Promise<number> => {
  for (;;) {
    const answer = await gateway.request('/v1/models', { key })
    await answer.arrayBuffer()
    const offByMs = performance.now() - endsMs
    if (answer.status === 401 || offByMs > KEY_LATE_MS) return offByMs
    await Bun.sleep(ASK_EVERY_MS)
  }
}

/**
 * The clock of `steady` gives the time; the last of `gateways` jumps. Spends the budget of a day before the first jump.
 */
export const watchExpiries = async (gateways: readonly GatewayProcess[]): Promise<Expiries> => {
  const [steady] = gateways
  const jumping = gateways.at(-1)!
  const { tenants } = (await (await steady!.request('/admin/v1/tenants?limit=1')).json()) as {
    tenants: { id: string }[]
  }
  const scope = { type: 'model', id: PRICED }
  await admin(steady!, 'PUT', '/budgets', { limit_usd: 0.005, window: 'day', scope })
  const windows = { asked: 0, opened: 0 }
  const keys = gateways.map(nothing)
  const deadlines = nothing()
  // Spent on both, until neither takes any more.
  for (const gateway of gateways)
    for (let asked = 0; (await chat(gateway, PRICED)) !== 402; asked++)
      if (asked > 200) throw new Error('the budget of a day is never spent')

  const deadline = async (): Promise<void> => {
    const askedMs = performance.now()
    const status = await chat(jumping, HUNG)
    if (status !== 504) throw new Error(`a hung upstream was told as ${status}`)
    note(deadlines, performance.now() - askedMs - HUNG_MS)
  }
  /**
   * Resolves when the key is known everywhere, which is before any clock jumps, with a function that waits for its end.
   */
  const key = async (): Promise<() => Promise<unknown>> => {
    const endsMs = performance.now() + KEY_LIVES_MS
    const expires_at = new Date(Date.now() + KEY_LIVES_MS).toISOString()
    const body = { tenant_id: tenants[0]!.id, name: 'brief', scopes: ['inference'], expires_at }
    const made = (await admin(steady!, 'POST', '/keys', body)) as { id: string; plaintext: string }
    for (const gateway of gateways)
      await eventually('it knows the key', async () => (await gateway.request(`/admin/v1/keys/${made.id}`)).ok, {
        everyMs: 5,
      })
    return () =>
      Promise.all(gateways.map(async (gateway, i) => note(keys[i]!, await endOfKey(gateway, made.plaintext, endsMs))))
  }
  return {
    deadlines,
    keys,
    windows,
    async during(jump) {
      const keyEnds = await key()
      const waiting = [deadline(), deadline()]
      await Bun.sleep(HUNG_MS / 3)
      jump()
      await Bun.sleep(JUMPED_MS)
      await Promise.all([...waiting, deadline(), keyEnds()])
      for (let i = 0; i < 5; i++) {
        windows.asked++
        if ((await chat(jumping, PRICED)) !== 402) windows.opened++
      }
    },
  }
}
