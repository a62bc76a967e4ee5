-- Probes of providers, the newest of each. Times are Unix milliseconds.
create table probe (
  provider_id text collate "C" not null,
  at_ms bigint not null,
  -- The instance that probed, and the number of the record within that start of a process.
  instance text collate "C" not null,
  epoch text collate "C" not null,
  sequence bigint not null,
  trigger text not null,
  ok boolean not null,
  latency_ms bigint not null,
  error_code text,
  upstream_status bigint,
  models bigint,
  log_partition integer not null,
  log_offset bigint not null,
  primary key (provider_id, at_ms, instance, epoch, sequence)
);
create index probe_at on probe (at_ms);

-- The newest day of log time: it decides what is too old to be kept, never a clock.
create table newest_day (
  one boolean primary key default true check (one),
  day integer not null
);
