-- The request log: one row for each request, whose outcome is the first settlement of its admission in log order. Times
-- are Unix milliseconds, money is nano-USD. Partitioned by day of arrival; days.ts makes the days and drops the old
-- ones.
create table request (
  id text collate "C" not null,
  request_id text collate "C" not null,
  at_ms bigint not null,
  tenant_id text collate "C",
  key_id text collate "C",
  requested_model text,
  routed_model text,
  model_id text,
  provider text,
  provider_id text,
  outcome text not null,
  status integer not null,
  error_code text,
  -- Length of the list of attempts.
  attempts integer not null,
  fallback_used boolean not null,
  stream boolean not null,
  cache_hit boolean not null,
  prompt_tokens bigint,
  completion_tokens bigint,
  cost_nano_usd bigint,
  cost_basis text not null,
  latency_ms bigint not null,
  ttft_ms bigint,
  policy_id text,
  endpoint text,
  end_user text,
  -- Why the gateway called the provider by itself (test, detection); null for a client's request. It belongs to no
  -- tenant's inference, but its cost is real.
  purpose text,
  log_at_ms bigint not null,
  log_partition integer not null,
  log_offset bigint not null,
  primary key (at_ms, id)
) partition by range (at_ms);
create index request_id on request (id);
create index request_label on request (request_id, at_ms) where request_id <> id;
create index request_tenant on request (tenant_id, at_ms, id);
create index request_place on request (log_partition, log_offset);
-- Failures are few: their lists and counts by code need no row but those that are shown.
create index request_failed on request (at_ms, id) include (error_code, status) where status >= 400;
create index request_code on request (error_code, at_ms, id) where error_code is not null;
create index request_ended on request (outcome, at_ms, id) where outcome <> 'success';
create index request_user on request (end_user, at_ms) where end_user is not null;

-- What only the view of one request needs, as JSON text that is never searched: what was known when the upstream was
-- called (null: refused before, or not read yet), and the rest of the settlement.
create table detail (
  at_ms bigint not null,
  id text collate "C" not null,
  admitted text,
  settled text not null
) partition by range (at_ms);
create index detail_at on detail (at_ms);

-- Admissions whose settlement has not been read yet.
create table pending (
  at_ms bigint not null,
  id text collate "C" not null,
  admitted text not null,
  log_partition integer not null,
  log_offset bigint not null,
  primary key (at_ms, id)
);

-- The newest day of log time: it decides what is too old to be kept, never a clock.
create table newest_day (
  one boolean primary key default true check (one),
  day integer not null
);
