-- Frames: the volatile inputs by which requests were planned, a row for each record of the log. A frame holds what
-- changed since the one before it; at an interval, and after a gap, all of it (`whole`). Times are Unix milliseconds.
create table frame (
  instance text collate "C" not null,
  epoch text collate "C" not null,
  number bigint not null,
  part integer not null,
  parts integer not null,
  whole boolean not null,
  at_ms bigint not null,
  -- JSON text: the rows of `frame.taken`, which are never searched.
  candidates text not null,
  log_partition integer not null,
  log_offset bigint not null,
  primary key (instance, epoch, number, part)
);
create index frame_whole on frame (instance, epoch, number) where whole and part = 1;
create index frame_at on frame (at_ms);

-- The newest day of log time: it decides what is too old to be kept, never a clock.
create table newest_day (
  one boolean primary key default true check (one),
  day integer not null
);
