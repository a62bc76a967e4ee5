-- The audit log: a row for each event of each decision that counts, in the order of the chain, with the row before and
-- after.
-- Times are Unix milliseconds: `at_ms` by the writer's clock, `log_at_ms` by the log's.
create table audit_event (
  log_offset bigint not null,
  event_index integer not null,
  decision_id text not null,
  at_ms bigint not null,
  log_at_ms bigint not null,
  actor_type text not null,
  actor_id text not null,
  action text not null,
  resource text not null,
  subject_id text not null,
  tenant_id text,
  event_type text not null,
  before jsonb,
  after jsonb,
  -- Rows that were deleted with it, by table, e.g. {"keys": 3}.
  removed jsonb not null,
  -- The decision that this one takes back.
  reverts text,
  primary key (log_offset, event_index)
);
create index audit_event_tenant on audit_event (tenant_id, log_offset);
create index audit_event_resource on audit_event (resource, log_offset);
create index audit_event_at on audit_event (at_ms);
create index audit_event_decision on audit_event (decision_id);

-- The control state at an offset, so that a worker need not fold the chain from its first decision. One row; gzip of
-- JSON.
create table checkpoint (
  id integer primary key check (id = 1),
  next_offset bigint not null,
  log_at_ms bigint not null,
  tip text not null,
  fold_version integer not null,
  state bytea not null
);
