// Who serves, and how far each has folded: announced to and read from `gateway.instances.v1`. What `X-Gateway-Applied-By`, schema activation and
// the alarm for diverging states stand on.
import type { ApiKeyRow } from '../domain/api-key.ts'
import { EVENT_VERSION, FOLD_VERSION } from '../domain/control.ts'
import type { RowChange } from '../domain/tables.ts'
import type { Diagnostics } from '../lib/diagnostics.ts'
import { pause } from '../lib/pause.ts'
import { type Static, t, Value } from '../lib/schema.ts'
import { readEnvelope, writeEnvelope } from '../log/envelope.ts'
import { type EventLog, LogUnavailable } from '../log/port.ts'
import { TOPICS } from '../log/topics.ts'
import { Changed } from '../state/changed.ts'
import type { LiveChain } from '../state/live-chain.ts'
import { StateHistory } from './state-history.ts'

const INSTANCES = TOPICS.instances.name
const EVERY_MS = 1_000
/** A decision that is not urgent is announced with others of this time. */
const SOON_MS = 50
/** Not heard of for so long: no longer counted as live. */
const LIVE_MS = 5_000
const MAX_INSTANCES = 1_024
/** More are not told: the announcement stays small. */
export const OPEN_BREAKERS_TOLD = 64

export const InstanceAnnounced = t.Object({
  instance: t.String({ maxLength: 128 }),
  /** Next offset of the control topic to fold; tip and digest of the state there. */
  offset: t.Integer({ minimum: 0 }),
  tip: t.String(),
  digest: t.String(),
  fold_version: t.Integer(),
  /** The newest event version that its build knows. */
  event_version: t.Integer(),
  build: t.String({ maxLength: 128 }),
  degraded: t.Union([t.String(), t.Null()]),
  /** Models whose circuit breakers it has open. */
  open_breakers: t.Optional(t.Array(t.String({ maxLength: 64 }), { maxItems: OPEN_BREAKERS_TOLD })),
})
export type InstanceAnnounced = Static<typeof InstanceAnnounced>

export interface InstancesDeps {
  readonly log: EventLog
  readonly live: LiveChain
  readonly instance: string
  readonly build: string
  readonly nowMs: () => number
  readonly diagnostics: Diagnostics
  readonly everyMs?: number
  /** Models whose breakers are open here, at most `OPEN_BREAKERS_TOLD`. */
  readonly openBreakers?: () => readonly string[]
  /** Called with those of another instance, each time it says them. */
  readonly heardOpenBreakers?: (modelIds: readonly string[]) => void
}

export interface Instances {
  /** This one first, then the others that were heard of within the last seconds. */
  list(): readonly InstanceAnnounced[]
  /** How many of the live instances have folded that decision; waits until all have, or for the time given. */
  appliedBy(revision: string, waitMs: number): Promise<{ readonly applied: number; readonly instances: number }>
  /** Not null: another instance had another state at the same offset of the chain. */
  alarm(): string | null
  close(): Promise<void>
}

/** Announces and listens until it is closed. Open it when the live state is ready. */
export const openInstances = (deps: InstancesDeps): Instances => new Announcements(deps)

class Announcements implements Instances {
  readonly #epoch = crypto.randomUUID()
  readonly #others = new Map<string, { said: InstanceAnnounced; heardAtMs: number }>()
  readonly #history: StateHistory
  readonly #changed = new Changed()
  readonly #closing = new AbortController()
  readonly #stops: (() => void)[]
  readonly #work: Promise<unknown>
  #sequence = 0
  #alarm: { instance: string; text: string } | null = null
  /** Due at this time (monotonic); null: nothing is due before the second is over. */
  #dueAtMs: number | null = null
  #announcedAtMs = Number.NEGATIVE_INFINITY

  constructor(readonly deps: InstancesDeps) {
    this.#history = new StateHistory(deps.live)
    this.#stops = [
      deps.live.watch((step) => {
        if (step.kind !== 'counts') return
        this.#history.note()
        this.#due(step.folded.changes.some(isUrgent) ? 0 : SOON_MS)
      }),
    ]
    this.#work = Promise.all([this.#announceForEver(), this.#listen()])
  }

  list(): readonly InstanceAnnounced[] {
    this.#forgetSilent()
    return [this.#self(), ...[...this.#others.values()].map(({ said }) => said)]
  }

  async appliedBy(revision: string, waitMs: number): Promise<{ applied: number; instances: number }> {
    const { live } = this.deps
    const offset = live.offsetOf(revision)
    const has = (said: InstanceAnnounced) =>
      said.tip === revision || (offset === undefined ? said.offset >= live.next : said.offset > offset)
    const applied = () => this.list().filter(has).length
    await this.#changed.until(() => applied() === this.list().length || this.#closing.signal.aborted, waitMs)
    return { applied: applied(), instances: this.list().length }
  }

  alarm(): string | null {
    return this.#alarm?.text ?? null
  }

  async close(): Promise<void> {
    this.#closing.abort()
    for (const stop of this.#stops) stop()
    this.#changed.tell()
    await this.#work
  }

  #self(): InstanceAnnounced {
    const { live, instance, build, openBreakers } = this.deps
    const open = openBreakers?.() ?? []
    const { offset, tip, digest, degraded } = live.status()
    return {
      instance,
      offset,
      tip,
      digest,
      fold_version: FOLD_VERSION,
      event_version: EVENT_VERSION,
      build,
      degraded,
      ...(open.length === 0 ? {} : { open_breakers: [...open] }),
    }
  }

  #due(inMs: number): void {
    if (this.#others.size === 0) return // nobody waits for it
    const atMs = performance.now() + inMs
    if (this.#dueAtMs !== null && this.#dueAtMs <= atMs) return
    this.#dueAtMs = atMs
    this.#changed.tell()
  }

  async #announceForEver(): Promise<void> {
    const { everyMs = EVERY_MS, diagnostics, log, instance, nowMs } = this.deps
    const { signal } = this.#closing
    while (!signal.aborted) {
      const nextAtMs = () => Math.min(this.#dueAtMs ?? Number.POSITIVE_INFINITY, this.#announcedAtMs + everyMs)
      while (!signal.aborted && nextAtMs() > performance.now()) {
        const before = this.#dueAtMs
        const waitMs = nextAtMs() - performance.now()
        await this.#changed.until(() => this.#dueAtMs !== before || signal.aborted, waitMs)
      }
      if (signal.aborted) return
      this.#dueAtMs = null
      this.#announcedAtMs = performance.now()
      try {
        const data = JSON.stringify(this.#self())
        const origin = { instance, epoch: this.#epoch, sequence: this.#sequence++ }
        const value = Buffer.from(writeEnvelope(origin, 'instance.announced', instance, nowMs(), data))
        await log.append(
          INSTANCES,
          0,
          [{ key: instance, value }],
          AbortSignal.any([signal, AbortSignal.timeout(2_000)]),
        )
      } catch (error) {
        // The next one comes in a second; what is lost is only freshness.
        if (!signal.aborted) diagnostics.debug('announcement_failed', { error })
      }
    }
  }

  async #listen(): Promise<void> {
    const { log, diagnostics } = this.deps
    const { signal } = this.#closing
    while (!signal.aborted) {
      try {
        const end = await log.end(INSTANCES, 0)
        for await (const batch of log.read(INSTANCES, 0, end, signal)) {
          for (const { value } of batch) this.#heard(value)
          this.#changed.tell()
        }
      } catch (error) {
        if (!(error instanceof LogUnavailable) && !signal.aborted) diagnostics.warn('instances_read_failed', { error })
        await pause(500, signal)
      }
    }
  }

  #heard(value: Uint8Array | null): void {
    const said = value === null ? null : readEnvelope(value)?.data
    if (!Value.Check(InstanceAnnounced, said) || said.instance === this.deps.instance) return
    this.#forgetSilent()
    if (!this.#others.has(said.instance) && this.#others.size === MAX_INSTANCES) return
    const isNew = !this.#others.has(said.instance)
    this.#others.set(said.instance, { said, heardAtMs: performance.now() })
    if (said.open_breakers !== undefined) this.deps.heardOpenBreakers?.(said.open_breakers)
    if (isNew) this.#due(0) // it does not know of us yet
    this.#compare(said)
  }

  #compare({ instance, offset, digest, fold_version, degraded }: InstanceAnnounced): void {
    if (fold_version !== FOLD_VERSION || degraded !== null || this.deps.live.refusal() !== null) return
    const ours = this.#history.digestAt(offset)
    if (ours === null) return
    if (ours === digest) {
      if (this.#alarm?.instance === instance) this.#alarm = null
      return
    }
    const text = `the instance ${instance} has another state than this one at offset ${offset} of the control topic`
    if (this.#alarm === null) this.deps.diagnostics.error('states_differ', { instance, offset, ours, theirs: digest })
    this.#alarm = { instance, text }
  }

  #forgetSilent(): void {
    const before = performance.now() - LIVE_MS
    for (const [name, { heardAtMs }] of this.#others) if (heardAtMs < before) this.#others.delete(name)
  }
}

/** Something was taken away: a row, or what it allowed. */
const isUrgent = ({ table, before, after }: RowChange): boolean => {
  if (table === 'overrides') return true // a kill comes as a new row
  if (before === null) return false
  if (after === null) return true
  if (table === 'keys' && (before as ApiKeyRow).digest !== (after as ApiKeyRow).digest) return true
  return standing(before) !== standing(after)
}

const standing = (row: unknown): string => {
  const { status, enabled } = row as { status?: string; enabled?: boolean }
  return `${status ?? ''}/${enabled ?? ''}`
}
