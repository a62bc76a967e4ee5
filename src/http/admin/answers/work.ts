// Response schemas of the routes that call a provider, and of those of the log. Open: a later version may add fields.
// The document names each by its title.
import { Id, Nullable, Timestamp } from '../../../domain/kernel/fields.ts'
import {
  CheckResult,
  CheckStatus,
  PROBE,
  ProviderTested,
  RecordedVerdict,
  SyncCounts,
  TestKind,
} from '../../../domain/registry/provider-test.ts'
import { type TSchema, t } from '../../../lib/schema/schema.ts'
import { RECORD_VERDICTS } from '../../../state/history/history-port.ts'

const Count = t.Integer({ minimum: 0 })
const Names = t.Array(t.String())
const Usd = Nullable(t.Number({ minimum: 0 }), 'USD; null: its cost is not known')
const revision = t.String({ description: 'id of a decision' })

const { cost_nano_usd: _, ...ofCheck } = CheckResult.properties
const { results: __, ...ofTest } = ProviderTested.properties
/** A recorded test of a provider, detection or synchronisation. */
export const ProviderTestView = t.Object(
  {
    ...ofTest,
    kind: t.Union([...TestKind.anyOf, t.Literal(PROBE)]),
    results: t.Array(t.Object({ ...ofCheck, cost_usd: t.Optional(Usd) }), {
      description: 'one for each check; what a check has nothing to say of is left out',
    }),
    created_at: Timestamp,
    revision,
  },
  { title: 'ProviderTest' },
)

/** Result of a synchronisation. */
export const ModelSyncView = t.Object({ ...SyncCounts.properties }, { title: 'ModelSync' })

const Detected = t.Object({
  model_id: Nullable(Id, 'null: the model is gone since'),
  model: Nullable(t.String({ description: 'its name in the registry' })),
  status: CheckStatus,
  latency_ms: Count,
  detail: t.String(),
  cost_usd: Usd,
  capabilities: Nullable(Names, 'what the registry says now; null: the model is gone since'),
  capability_source: Nullable(t.String()),
  proven: Names,
  disproved: Names,
  indeterminate: Names,
  skipped: Names,
  verdicts: t.Optional(t.Array(RecordedVerdict, { description: 'each question, in the order of asking' })),
})
/** Result of a detection. */
export const DetectionView = t.Object(
  {
    id: Id,
    provider_id: Id,
    attempted: t.Integer({ minimum: 0, description: 'models that were asked' }),
    proven: t.Integer({ minimum: 0, description: 'capabilities, over all models' }),
    indeterminate: Count,
    skipped: Count,
    disproved: Count,
    models_left: t.Integer({ minimum: 0, description: 'models that it had no room for' }),
    models: t.Array(Detected),
    created_at: Timestamp,
  },
  { title: 'Detection' },
)

export const ReloadedView = t.Object({ reloaded: t.Literal(true), revision }, { title: 'Reloaded' })

const RECORD = {
  offset: Count,
  id: Nullable(t.String(), 'SHA-256 of its bytes; null: it has none'),
  verdict: t.Union(
    RECORD_VERDICTS.map((name) => t.Literal(name)),
    { description: '`malformed`: it counts and changed nothing; `turn`: a courtesy between writers, no decision' },
  ),
  reason: Nullable(t.String(), 'why it changed nothing'),
  at: Nullable(Timestamp, 'the clock of the writer; null, as what follows: it does not say, or cannot be trusted'),
  log_at: Timestamp,
  actor: Nullable(t.Object({ type: t.String(), id: t.String() })),
  instance: Nullable(t.String(), 'the process that wrote it'),
  parent: Nullable(t.String(), 'the decision on which it was decided'),
  has_cause: t.Boolean({ description: 'asked for with an `Idempotency-Key`' }),
  event_types: t.Array(t.String()),
  reverts: Nullable(t.String(), 'id of the decision that it takes back'),
}
const Events = t.Array(t.Object({ type: t.String(), data: t.Unknown({ description: 'secrets masked' }) }))
const row = { table: t.String(), id: t.String() }
const Row = (description: string): TSchema => t.Unknown({ description })

/** A page of the log. */
export const LogAnswer = t.Object(
  {
    decisions: t.Array(t.Object(RECORD, { title: 'LogRecord' }), { description: 'newest first' }),
    total: Count,
    limit: t.Integer({ minimum: 1 }),
    offset: Count,
    next_before: Nullable(Count, 'what to send as `before` for the next page; null: this was the last one'),
  },
  { title: 'Log' },
)

export const LogRecordAnswer = t.Object(
  {
    ...RECORD,
    events: Events,
    changes: t.Array(
      t.Object({
        ...row,
        before: Row('the row, secrets masked; null: there was none'),
        after: Row('likewise; null: it is gone'),
      }),
    ),
    changes_total: t.Integer({ minimum: 0, description: 'how many there were, should not all be shown' }),
  },
  { title: 'LogRecordDetail' },
)

export const RevertAnswer = t.Object(
  {
    reverted: t.Boolean(),
    dry_run: t.Boolean(),
    reverts: revision,
    events: Events,
    rows: t.Array(t.Object(row), { description: 'what stands as it stood before' }),
  },
  { title: 'Revert' },
)
