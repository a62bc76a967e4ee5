-- Feedback: the latest of each tenant, request and metric, by the time of the event and then its id. Times are Unix
-- milliseconds, scores -1 to 1.
create table feedback (
  tenant_id text not null,
  request text not null,
  metric text not null,
  id text not null,
  at_ms bigint not null,
  request_id text not null,
  key_id text not null,
  provider_id text,
  model_id text,
  score double precision not null,
  comment text,
  tags jsonb not null,
  log_partition integer not null,
  log_offset bigint not null,
  primary key (tenant_id, request, metric)
);
create index feedback_at on feedback (at_ms, id);
create index feedback_tenant on feedback (tenant_id, at_ms, id);
