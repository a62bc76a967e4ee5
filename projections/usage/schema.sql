-- Usage of minutes, hours and days, one row for each tier, bucket, tenant and dimension. Part of the request log's
-- build: written in the same transaction as its rows, so that both always agree. Times are Unix milliseconds (start of
-- the bucket, UTC), money is nano-USD, a histogram is `bin count bin count ...`.
-- Dimensions: `total`; `model` (provider and model together); of hours and days also `key`, `endpoint`, `policy`,
-- `code`, `purpose`.
-- tenant_id: '*' is all tenants together (total and model only), '' is no tenant (the gateway itself).
create table usage (
  -- `minute`, `hour`, `day`: how long the bucket is.
  tier text collate "C" not null,
  dimension text collate "C" not null,
  tenant_id text collate "C" not null,
  bucket_ms bigint not null,
  -- The provider's name, or the value of the dimension: an id, a slug, a code. '' is none.
  name text collate "C" not null,
  -- Of `model` only.
  model text collate "C" not null,
  requests bigint not null,
  failed bigint not null,
  interrupted bigint not null,
  denied bigint not null,
  orphaned bigint not null,
  canceled bigint not null,
  cache_hits bigint not null,
  fallbacks bigint not null,
  -- Requests whose cost is not known.
  unpriced bigint not null,
  -- Calls of providers, each with the provider and model that it went to.
  attempts bigint not null,
  failed_attempts bigint not null,
  prompt_tokens bigint not null,
  completion_tokens bigint not null,
  cached_prompt_tokens bigint not null,
  reasoning_tokens bigint not null,
  cost_nano_usd bigint not null,
  -- What a corrected price is applied to: tokens of all attempts that were billed and whose tokens are known, and what
  -- was booked for them.
  billed_prompt_tokens bigint not null,
  -- Of those.
  billed_cached_tokens bigint not null,
  billed_completion_tokens bigint not null,
  billed_nano_usd bigint not null,
  latency text not null,
  ttft text not null,
  primary key (tier, dimension, tenant_id, bucket_ms, name, model)
);

-- Days that are closed: their rows stand in gateway.usage.v1 as they were with all records below `offsets` (JSON,
-- `[[partition, offset], ...]`). `digest`: of the rows as published. `late`: changes since the first closing that are
-- in it. Written by close.ts, and once by closed.ts.
create table closed_day (
  day_ms bigint primary key,
  sequence integer not null,
  offsets text not null,
  digest text not null,
  late bigint not null
);

-- How often a closed day has changed since.
create table late_day (
  day_ms bigint primary key,
  changes bigint not null
);

-- One row once closed days were put into this build.
create table restored (
  one boolean primary key default true check (one)
);
