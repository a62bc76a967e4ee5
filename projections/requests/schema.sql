-- The request log: one row for each request, whose outcome is the first settlement of its admission in log order.
-- Times are Unix milliseconds, money is nano-USD. Partitioned by day of arrival; project.ts makes the days.
create table request (
  id text not null,
  request_id text not null,
  trace_id text not null,
  at_ms bigint not null,
  tenant_id text,
  key_id text,
  requested_model text,
  routed_model text,
  model_id text,
  provider text,
  provider_id text,
  outcome text not null,
  status integer not null,
  error_code text,
  fallback_used boolean not null,
  stream boolean not null,
  cache_hit boolean not null,
  finish_reason text,
  prompt_tokens bigint,
  completion_tokens bigint,
  cached_prompt_tokens bigint,
  reasoning_tokens bigint,
  raw_usage jsonb,
  cost_nano_usd bigint,
  cost_basis text not null,
  price_version text,
  latency_ms bigint not null,
  ttft_ms bigint,
  policy_id text,
  strategy text,
  endpoint text,
  end_user text,
  task text not null,
  revision text not null,
  frame bigint not null,
  seed bigint not null,
  admission text,
  attempts jsonb not null,
  log_at_ms bigint not null,
  log_partition integer not null,
  log_offset bigint not null,
  -- Of a request that was planned and refused; an admitted one has them in its admission.
  candidates jsonb,
  -- Why the gateway called the provider by itself (test, detection); null for a client's request. No tenant's inference, though it cost what it cost.
  purpose text,
  primary key (at_ms, id)
) partition by range (at_ms);
create index request_id on request (id);
create index request_label on request (request_id, at_ms) where request_id <> id;
create index request_tenant on request (tenant_id, at_ms, id);
create index request_failed on request (at_ms, id) where status >= 400;

-- What was known when the upstream was called: every candidate of the plan, and why the others were not taken.
create table admission (
  id text not null,
  at_ms bigint not null,
  provider text not null,
  provider_id text not null,
  model text not null,
  model_id text not null,
  prompt_tokens_estimate bigint not null,
  reserved_nano_usd bigint,
  candidates jsonb not null,
  log_at_ms bigint not null,
  log_partition integer not null,
  log_offset bigint not null,
  primary key (at_ms, id)
) partition by range (at_ms);
create index admission_id on admission (id);
