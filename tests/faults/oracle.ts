// The oracle client: every answer that it received complete must be in the log. Each request carries a distinct
// X-Request-ID. `complete` holds the requests whose whole answer arrived (JSON body parsed, or `[DONE]` without an
// error frame before it), once the file that lists them is synced.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { GatewayProcess } from '../services/gateway.ts'
import { openJournal, readJournal, type Seen } from './journal.ts'

export interface Oracle {
  readonly sent: Set<string>
  readonly complete: Set<string>
  /** Of what is complete: as it was read back from the file, once it has stopped. */
  readonly seen: Map<string, Seen>
  /**
   * Requests that were answered with 200 and ended too early or with an error frame. Their provider was called, so they
   * must be in the log with any outcome.
   */
  readonly broken: ReadonlySet<string>
  /** Whole answers of `sandbox-echo` that do not match their request. */
  readonly strange: ReadonlySet<string>
  /** Requests that ended otherwise, by what was seen: a status, `cut`, `error frame`, `no connection`. */
  readonly failures: Map<string, number>
  /** Resolves with true once so many more are complete, with false where they are not within the limit. */
  answered(many: number, limitMs?: number): Promise<boolean>
  /** Stops sending and waits for what is in flight. */
  stop(): Promise<void>
}

/**
 * `clients` loops, every third request streamed. Each loop begins a request at least `everyMs` after its last one.
 * After a refused connection (the gateway is down) it waits 5 ms.
 */
export const startOracle = (gateway: () => GatewayProcess, clients: number, model: string, everyMs = 0): Oracle => {
  const folder = mkdtempSync(join(tmpdir(), 'gatelog-oracle-'))
  const path = join(folder, 'complete.jsonl')
  const journal = openJournal(path)
  const read = new Map<string, Seen>()
  const sent = new Set<string>()
  const complete = new Set<string>()
  const broken = new Set<string>()
  const strange = new Set<string>()
  const failures = new Map<string, number>()
  const seen = (what: string) => void failures.set(what, (failures.get(what) ?? 0) + 1)
  const awaited = new Set<{ readonly size: number; resolve(isThere: boolean): void }>()
  let running = true
  let next = 0
  const run = Math.random().toString(36).slice(2, 8)

  const once = async () => {
    const id = `oracle-${run}-${next++}`
    const stream = next % 3 === 0
    const body = {
      model,
      messages: [{ role: 'user', content: `count ${id}` }],
      ...(stream ? { stream, stream_options: { include_usage: true } } : {}),
    }
    sent.add(id)
    const sentMs = performance.now()
    let answer: Response
    try {
      answer = await gateway().request('/v1/chat/completions', {
        body,
        headers: { 'X-Request-ID': id },
        signal: AbortSignal.timeout(20_000),
      })
    } catch {
      seen('no connection')
      await Bun.sleep(5)
      return
    }
    const firstByteMs = performance.now()
    if (answer.ok) broken.add(id)
    try {
      const text = await answer.text()
      if (!answer.ok) seen(`status ${answer.status}: ${messageIn(text)}`)
      else if (stream && text.includes('event: error')) seen('error frame')
      else if (
        stream
          ? text.endsWith('data: [DONE]\n\n')
          : (JSON.parse(text) as { object: string }).object === 'chat.completion'
      )
        await journal.note({ id, sentMs, firstByteMs, tokens: tokensIn(text) }).then(() => {
          complete.add(id)
          broken.delete(id)
          for (const each of awaited) if (complete.size >= each.size) each.resolve(true)
          if (model === ECHO && textIn(text) !== `count ${id}`) strange.add(id)
        })
      else seen('cut')
    } catch {
      seen('cut')
    }
  }
  const loops = Array.from({ length: clients }, async () => {
    while (running) {
      const dueMs = performance.now() + everyMs
      await once()
      const restMs = dueMs - performance.now()
      if (restMs > 0) await Bun.sleep(restMs)
    }
  })
  return {
    sent,
    complete,
    broken,
    strange,
    failures,
    seen: read,
    async answered(many, limitMs = ANSWERED_WITHIN_MS) {
      const { promise, resolve } = Promise.withResolvers<boolean>()
      const own = { size: complete.size + many, resolve }
      const limit = setTimeout(() => resolve(false), limitMs)
      awaited.add(own)
      const isThere = await promise
      clearTimeout(limit)
      awaited.delete(own)
      return isThere
    },
    async stop() {
      running = false
      await Promise.all(loops)
      await journal.close()
      complete.clear()
      for (const seen of readJournal(path)) {
        complete.add(seen.id)
        read.set(seen.id, seen)
      }
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** On a loaded machine too. */
const ANSWERED_WITHIN_MS = 60_000

/** The message of an error, without the parts that differ from request to request. */
const messageIn = (text: string): string =>
  (/"message":"([^"]*)"/.exec(text)?.[1] ?? text).replaceAll(/\d+/g, 'N').slice(0, 80)

const ECHO = 'sandbox-echo'

/** The text of an answer, JSON or stream. */
const textIn = (text: string): string =>
  [...text.matchAll(/"content":("(?:[^"\\]|\\.)*")/g)].map(([, content]) => JSON.parse(content!) as string).join('')

/** Of the whole answer, JSON or stream. */
const tokensIn = (text: string): number | null => {
  const told = [...text.matchAll(/"total_tokens":(\d+)/g)].at(-1)?.[1]
  return told === undefined ? null : Number(told)
}

export interface RequestRow {
  readonly id: string
  readonly request_id: string
  readonly outcome: string
  readonly cost_usd: number | null
  readonly prompt_tokens: number | null
  readonly completion_tokens: number | null
}

/** The worker may not have made the read model yet: 502 until then. */
const STARTING_MS = 60_000

/**
 * Every row of the request log, through the administration API. Waits until there are so many and their total has not
 * changed for two seconds. Stops waiting for the number after a minute without a new row.
 */
export const settledRows = async (gateway: GatewayProcess, since: Date, atLeast: number): Promise<RequestRow[]> => {
  const startedAt = performance.now()
  const ask = () => gateway.request(`/admin/v1/requests?from=${since.toISOString()}&limit=1`)
  const totalNow = async () => {
    let answer = await ask()
    while (answer.status === 502 && performance.now() - startedAt < STARTING_MS) {
      await answer.body?.cancel()
      await Bun.sleep(200)
      answer = await ask()
    }
    if (!answer.ok) throw new Error(`GET /admin/v1/requests: ${answer.status} ${await answer.text()}`)
    return ((await answer.json()) as { total: number }).total
  }
  let total = -1
  for (let quiet = 0; quiet < (total < atLeast ? 120 : 4); ) {
    const now = await totalNow()
    quiet = now === total ? quiet + 1 : 0
    total = now
    await Bun.sleep(500)
  }
  return exported(gateway, since, new Date())
}

/** One export holds at most a million rows. */
const SLICE_MS = 5 * 60_000
/** The last slice holds what a clock that was set forward has written. */
const AHEAD_MS = 3 * 86_400_000

/** Slice by slice as NDJSON: pages by number take longer and longer. Of a row only what is compared is kept. */
const exported = async (gateway: GatewayProcess, since: Date, until: Date): Promise<RequestRow[]> => {
  const rows: RequestRow[] = []
  for (let fromMs = since.getTime(); fromMs < until.getTime(); fromMs += SLICE_MS) {
    const nextMs = fromMs + SLICE_MS
    const toMs = nextMs < until.getTime() ? nextMs : nextMs + AHEAD_MS
    const bounds = `from=${new Date(fromMs).toISOString()}&to=${new Date(toMs).toISOString()}`
    const answer = await gateway.request(`/admin/v1/requests?format=ndjson&${bounds}`)
    if (!answer.ok) throw new Error(`GET /admin/v1/requests: ${answer.status} ${await answer.text()}`)
    let rest = ''
    const decoder = new TextDecoder()
    for await (const piece of answer.body!) {
      const lines = (rest + decoder.decode(piece, { stream: true })).split('\n')
      rest = lines.pop()!
      for (const line of lines) {
        const { id, request_id, outcome, cost_usd, prompt_tokens, completion_tokens } = JSON.parse(line) as RequestRow
        rows.push({ id, request_id, outcome, cost_usd, prompt_tokens, completion_tokens })
      }
    }
    if (rest !== '') throw new Error('an export broke off')
  }
  return rows
}

/**
 * Lost: complete for a client, without an outcome. Doubled: one outcome in two rows. Other tokens: the client received
 * another number.
 */
export const compare = (oracle: Oracle, rows: readonly RequestRow[]) => {
  const ids = new Set<string>()
  const byRequest = new Map<string, number>()
  let doubled = 0
  for (const row of rows) {
    if (ids.has(row.id)) doubled++
    ids.add(row.id)
    byRequest.set(row.request_id, (byRequest.get(row.request_id) ?? 0) + 1)
  }
  for (const count of byRequest.values()) if (count > 1) doubled += count - 1
  const lost = [...oracle.complete].filter((id) => !byRequest.has(id))
  const phantom = rows.filter((row) => row.request_id.startsWith('oracle-') && !oracle.sent.has(row.request_id)).length
  const otherTokens = rows.filter(({ request_id, prompt_tokens, completion_tokens }) => {
    const tokens = oracle.seen.get(request_id)?.tokens ?? null
    return tokens !== null && tokens !== (prompt_tokens ?? 0) + (completion_tokens ?? 0)
  }).length
  /** Of those that broke off. */
  const recorded = [...oracle.broken].filter((id) => byRequest.has(id)).length
  return {
    lost: lost.length,
    doubled,
    phantom,
    otherTokens,
    recorded,
    outcomes: Object.groupBy(rows, (row) => row.outcome),
  }
}

export const percentiles = (values: readonly number[]) => {
  const sorted = [...values].sort((a, b) => a - b)
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
  return { p50: at(0.5), p99: at(0.99), max: sorted.at(-1) ?? Number.NaN }
}
