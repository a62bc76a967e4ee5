-- What stands behind every read model: its builds, how far each has come, and what it set aside. Owned by
-- projections/builds.ts and projections/projection.ts.
create schema if not exists gatelog;

-- A build is one set of tables of a read model, in a schema of its own. Readers use the active one; another may be
-- built beside it.
create table if not exists gatelog.build (
  model text not null,
  build integer not null,
  version integer not null,
  topic text not null,
  schema_name text not null,
  state text not null check (state in ('building', 'active')),
  primary key (model, build)
);
create unique index if not exists build_active on gatelog.build (model) where state = 'active';

-- How far a build has come in a partition. `tip`: the newest decision that counts (control only). `witness`: SHA-256 of
-- the record at next_offset - 1, by which a replaced topic is detected. `log_at_ms`: running maximum of log time.
create table if not exists gatelog.position (
  model text not null,
  build integer not null,
  topic text not null,
  partition integer not null,
  first_offset bigint,
  next_offset bigint not null,
  log_at_ms bigint not null,
  tip text,
  witness text,
  primary key (model, build, topic, partition),
  foreign key (model, build) references gatelog.build on delete cascade
);

-- The highest sequence of each process start that was applied: repeats are dropped.
create table if not exists gatelog.sequence (
  model text not null,
  build integer not null,
  topic text not null,
  partition integer not null,
  instance text not null,
  epoch text not null,
  sequence bigint not null,
  primary key (model, build, topic, partition, instance, epoch),
  foreign key (model, build) references gatelog.build on delete cascade
);

-- Records that cannot be applied. `value`: their first 4 KiB.
create table if not exists gatelog.poison (
  model text not null,
  build integer not null,
  topic text not null,
  partition integer not null,
  log_offset bigint not null,
  at_ms bigint not null,
  reason text not null,
  value bytea,
  primary key (model, build, topic, partition, log_offset),
  foreign key (model, build) references gatelog.build on delete cascade
);

-- What the workers report of themselves. Not part of any read model: it follows the clock.
create table if not exists gatelog.status (
  model text primary key,
  worker text not null,
  state text not null,
  detail text not null,
  lag_ms bigint not null,
  behind_records bigint not null,
  poison bigint not null,
  reported_at timestamptz not null
);

-- How far decisions were published to the audit topic.
create table if not exists gatelog.audit_publication (
  id integer primary key check (id = 1),
  next_offset bigint not null
);
