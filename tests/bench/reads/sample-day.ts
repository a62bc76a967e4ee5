// One day of outcomes as a gateway records them, written to a separate spool. The rows that the worker projects from it
// are repeated for many days.
import type { RequestAdmitted } from '../../../src/domain/events/request.ts'
import type { AttemptSummary, Settlement } from '../../../src/domain/events/request-reading.ts'
import { openSpool } from '../../../src/log/spool/open.ts'
import { admitted, plan, settled } from '../../projections/support.ts'
import type { BenchModel, World } from './world.ts'

export const DAY_MS = 86_400_000
const USERS = 3_000
/** Requests under way at once: a settlement stands that many admissions after its own. */
const AT_ONCE = 64
const APPENDED_AT_ONCE = 2_000
/** One of so many is given feedback. */
const FEEDBACK_EVERY = 50

/** The same for the same seed. */
const randomFrom = (seed: number) => () => {
  seed = (seed * 1_664_525 + 1_013_904_223) >>> 0
  return seed / 2 ** 32
}

const uuid = (atMs: number, serial: number): string => {
  const hex = atMs.toString(16).padStart(12, '0')
  return `${hex.slice(0, 8)}-${hex.slice(8)}-7${(serial % 4_096).toString(16).padStart(3, '0')}-8a5c-${serial.toString(16).padStart(12, '0')}`
}

type Ending = Pick<Settlement, 'outcome' | 'status' | 'error_code'>
/** Shares of a thousand. */
const ENDINGS: readonly (readonly [share: number, Ending])[] = [
  [940, { outcome: 'success', status: 200, error_code: null }],
  [20, { outcome: 'error', status: 502, error_code: 'upstream_error' }],
  [8, { outcome: 'error', status: 504, error_code: 'timeout' }],
  [4, { outcome: 'error', status: 429, error_code: 'rate_limited' }],
  [10, { outcome: 'denied', status: 429, error_code: 'rate_limited' }],
  [3, { outcome: 'denied', status: 402, error_code: 'quota_exceeded' }],
  [3, { outcome: 'denied', status: 400, error_code: 'invalid_request' }],
  [8, { outcome: 'canceled', status: 499, error_code: 'request_canceled' }],
  [4, { outcome: 'interrupted', status: 200, error_code: 'upstream_error' }],
]

const endingOf = (random: number): Ending => {
  let left = random * 1_000
  for (const [share, ending] of ENDINGS) {
    left -= share
    if (left < 0) return ending
  }
  return ENDINGS[0]![1]
}

const attempt = (n: number, { name, provider }: BenchModel, outcome: AttemptSummary['outcome']): AttemptSummary => ({
  n,
  provider: provider.name,
  model: name,
  outcome,
  error_code: outcome === 'error' ? 'upstream_error' : null,
  upstream_status: outcome === 'error' ? 503 : 200,
  latency_ms: 400,
  ttft_ms: null,
  ...(outcome === 'error' ? { cost_nano_usd: 0, cost_basis: 'estimated' as const } : {}),
})

type Shared = Pick<
  Settlement,
  'request_id' | 'key_id' | 'requested_model' | 'policy_id' | 'endpoint' | 'user' | 'stream'
>
type Called = Pick<RequestAdmitted, 'provider' | 'provider_id' | 'model_id'>

/** What a gateway writes of it: nothing that its id says, and no null. */
const admission = (id: string, facts: Shared & Called, seed: number): RequestAdmitted => {
  const { request_id, key_id, requested_model, policy_id, endpoint, user, stream, ...called } = facts
  const { provider, provider_id, model_id } = called
  return admitted(id, {
    ...{ provider, provider_id, model_id, at_ms: undefined },
    ...(request_id === id ? {} : { request_id }),
    ...(key_id === null ? {} : { key_id }),
    ...(requested_model === null ? {} : { requested_model }),
    ...(policy_id === null ? {} : { policy_id }),
    ...(endpoint === null ? {} : { endpoint }),
    ...(user === null ? {} : { user }),
    ...(stream ? { stream } : {}),
    plan: { ...plan, seed, text_bytes: 900, messages: 3, prompt_bytes: 1_200 },
  })
}

interface Written {
  readonly id: string
  readonly tenant: string
  /** Null: refused before. */
  readonly admission: string | null
  settlement(origin: string | null): string
  readonly feedback: string | null
}

/** One request: its admission, its outcome and its feedback. */
const outcomeOf = (serial: number, atMs: number, world: World, random: () => number): Written => {
  const id = `req_${uuid(atMs, serial)}`
  const pick = <Item>(items: readonly Item[]): Item => items[Math.floor(random() ** 2 * items.length)]!
  const tenant = pick(world.tenants)
  const model = pick(world.models)
  const ending = endingOf(random())
  const { outcome } = ending
  const isDenied = outcome === 'denied'
  const latencyMs = Math.round(80 * 20 ** random())
  const stream = random() < 0.5
  const user = random() < 0.4 ? Math.floor(random() * USERS) : null
  const retried = outcome === 'success' && random() < 0.05
  const shared = {
    request_id: random() < 0.2 ? `Order-${serial}` : id,
    trace_id: id.slice(4).replaceAll('-', ''),
    at_ms: atMs,
    tenant_id: tenant.id,
    key_id: pick(tenant.keys),
    requested_model: model.name,
    policy_id: random() < 0.4 ? tenant.policy : null,
    endpoint: random() < 0.2 ? pick(world.endpoints) : null,
    user: user === null ? null : Bun.SHA256.hash(`user ${user}`, 'hex').slice(0, 32),
    stream,
  }
  const called = { model_id: model.id, provider_id: model.provider.id, provider: model.provider.name }
  const seed = Math.floor(random() * 2 ** 31)
  const nobody = { provider: null, provider_id: null, model_id: null, routed_model: null, attempts: [] }
  const nothing = { prompt_tokens: null, completion_tokens: null, cost_nano_usd: 0, cost_basis: 'none' as const }
  const ended = outcome === 'success' ? 'success' : outcome === 'error' ? 'error' : (outcome as 'canceled')
  const answered = {
    ...called,
    routed_model: model.name,
    attempts: [...(retried ? [attempt(1, world.models.at(-1)!, 'error')] : []), attempt(retried ? 2 : 1, model, ended)],
    fallback_used: retried,
    prompt_tokens: Math.floor(random() * 4_000),
    completion_tokens: Math.floor(random() * 800),
    cost_nano_usd: Math.floor(random() * 20_000_000),
    ttft_ms: stream ? Math.round(latencyMs / 4) : null,
  }
  const of = isDenied ? { ...nobody, ...nothing } : answered
  const score = random() * 2 - 1
  return {
    id,
    tenant: tenant.id,
    admission: isDenied ? null : JSON.stringify(admission(id, { ...shared, ...called }, seed)),
    settlement: (admission) =>
      JSON.stringify(
        settled(id, {
          ...{ ...shared, ...ending, ...of, admission },
          latency_ms: isDenied ? 2 : latencyMs,
        }),
      ),
    feedback:
      serial % FEEDBACK_EVERY !== 0 || isDenied
        ? null
        : JSON.stringify({
            ...{ id: `fb_${uuid(atMs, serial)}`, at_ms: atMs, tenant_id: tenant.id, key_id: shared.key_id },
            ...{ request: id, request_id: shared.request_id, provider_id: called.provider_id },
            ...{ model_id: model.id, score, comment: null, metric: 'quality', tags: {} },
          }),
  }
}

/**
 * Writes a day of outcomes from `startMs` on, evenly spread; the clock of the records advances with them. Returns the
 * number of records.
 */
export const writeDay = async (dataDir: string, startMs: number, count: number, world: World): Promise<number> => {
  let now = startMs
  const spool = await openSpool({
    dataDir,
    durability: 'process',
    keeping: { until: 'projected', consumers: { requests: ['projection'], operations: [] }, retentionMs: null },
    nowMs: () => now,
    ballastBytes: 0,
    backlogBytes: 2 ** 40,
  })
  const random = randomFrom(7)
  const appending: Promise<unknown>[] = []
  let records = 0
  const append = (type: string, { tenant }: Written, data: string): string => {
    appending.push(spool.append('requests', type, tenant, data))
    return `${spool.instance}.${spool.epoch}.${records++}`
  }
  const open: { readonly written: Written; readonly admission: string | null }[] = []
  const settle = () => {
    const { written, admission } = open.shift()!
    append('request.settled', written, written.settlement(admission))
    if (written.feedback !== null) append('feedback.given', written, written.feedback)
  }
  for (let serial = 0; serial < count; serial++) {
    now = startMs + Math.floor((serial / count) * DAY_MS)
    const written = outcomeOf(serial, now, world, random)
    const admission = written.admission === null ? null : append('request.admitted', written, written.admission)
    open.push({ written, admission })
    if (open.length > AT_ONCE) settle()
    if (appending.length >= APPENDED_AT_ONCE) await Promise.all(appending.splice(0))
  }
  while (open.length > 0) settle()
  await Promise.all(appending)
  await spool.close()
  return records
}
