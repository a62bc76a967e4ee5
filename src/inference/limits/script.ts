// The counts in Redis, in Lua, with the windows of `lib/collections/sliding-window.ts`: one call takes all limits of a
// request, or none. A hash for each rule holds its counts (`l` newest bucket that was read, `n` newest that was taken
// from, `r` requests, `t` tokens, `r<slot>` and `t<slot>` those of each bucket); a sorted set holds the slots (request
// -> end of its lease).
import { BUCKET_MS, BUCKETS } from '../../lib/collections/sliding-window.ts'

/** Shared by both scripts. ARGV[1] is the time in milliseconds, or empty for the server's own. */
const COMMON = `
local WIDTH, COUNT = ${BUCKET_MS}, ${BUCKETS}
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local bucket = math.floor(now / WIDTH)

-- Drops what has left the window. Returns the bucket of now, requests, tokens, the newest bucket that was taken from.
local function advance(key)
  local kept = redis.call('HMGET', key, 'l', 'r', 't', 'n')
  if not kept[1] then return bucket, 0, 0, 0 end
  local last, requests, tokens, newest = tonumber(kept[1]), tonumber(kept[2]), tonumber(kept[3]), tonumber(kept[4])
  if last >= bucket then return last, requests, tokens, newest end
  if bucket - last >= COUNT then
    redis.call('DEL', key)
    return bucket, 0, 0, 0
  end
  local slots = {}
  for at = last + 1, bucket do
    slots[#slots + 1] = 'r' .. at % COUNT
    slots[#slots + 1] = 't' .. at % COUNT
  end
  local gone = redis.call('HMGET', key, unpack(slots))
  for i = 1, #slots, 2 do
    requests = requests - (tonumber(gone[i]) or 0)
    tokens = tokens - (tonumber(gone[i + 1]) or 0)
  end
  redis.call('HDEL', key, unpack(slots))
  redis.call('HSET', key, 'l', bucket, 'r', requests, 't', tokens)
  return bucket, requests, tokens, newest
end

local function keep(key)
  redis.call('PEXPIRE', key, (COUNT + 1) * WIDTH)
end
`

/**
 * KEYS: counts and slots of each rule. ARGV: time, request, tokens, lease in ms, then of each rule rpm, tpm and
 * max_parallel (0: none). Returns: index of the refusing rule from 1 (0: admitted), limit (1 rpm, 2 tpm, 3
 * max_parallel), wait in ms (-1: never fits), the time, then of each rule bucket, requests, tokens, newest bucket.
 */
export const TAKE_SCRIPT = `${COMMON}
local request, asked, lease = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local refused, limit, longest = 0, 0, 0
local rules = {}

local function refuse(rule, which, wait)
  if refused == 0 or (longest >= 0 and (wait < 0 or wait > longest)) then
    refused, limit, longest = rule, which, wait
  end
end

local function waitFor(key, last, kind, total, amount, max)
  if amount > max then return -1 end
  local slots = {}
  for at = last - COUNT + 1, last do slots[#slots + 1] = kind .. at % COUNT end
  local taken = redis.call('HMGET', key, unpack(slots))
  for i = 1, COUNT do
    total = total - (tonumber(taken[i]) or 0)
    if total + amount <= max then return (last + i) * WIDTH - now end
  end
  return COUNT * WIDTH
end

for i = 1, #KEYS / 2 do
  local counts, slots = KEYS[2 * i - 1], KEYS[2 * i]
  local rpm, tpm, parallel = tonumber(ARGV[3 * i + 2]), tonumber(ARGV[3 * i + 3]), tonumber(ARGV[3 * i + 4])
  local last, requests, tokens, newest = bucket, 0, 0, 0
  if rpm > 0 or tpm > 0 then last, requests, tokens, newest = advance(counts) end
  if rpm > 0 and requests + 1 > rpm then refuse(i, 1, waitFor(counts, last, 'r', requests, 1, rpm)) end
  if tpm > 0 and tokens + asked > tpm then refuse(i, 2, waitFor(counts, last, 't', tokens, asked, tpm)) end
  if parallel > 0 then
    redis.call('ZREMRANGEBYSCORE', slots, '-inf', now)
    if redis.call('ZCARD', slots) >= parallel then refuse(i, 3, 1000) end
  end
  rules[i] = { last, requests, tokens, newest, rpm, tpm, parallel }
end

local answer = { refused, limit, longest, now }
for i, rule in ipairs(rules) do
  local last, requests, tokens, newest, rpm, tpm, parallel = unpack(rule)
  local counts, slots = KEYS[2 * i - 1], KEYS[2 * i]
  if refused == 0 then
    if rpm > 0 or tpm > 0 then
      if rpm > 0 then
        requests = requests + 1
        redis.call('HINCRBY', counts, 'r' .. last % COUNT, 1)
      end
      if tpm > 0 then
        tokens = tokens + asked
        redis.call('HINCRBY', counts, 't' .. last % COUNT, asked)
      end
      newest = last
      redis.call('HSET', counts, 'l', last, 'r', requests, 't', tokens, 'n', newest)
      keep(counts)
    end
    if parallel > 0 then
      redis.call('ZADD', slots, now + lease, request)
      redis.call('PEXPIRE', slots, lease + WIDTH)
    end
  end
  for _, number in ipairs({ last, requests, tokens, newest }) do answer[#answer + 1] = number end
end
return answer
`

/**
 * KEYS: counts and slots of each rule. ARGV: time, request, tokens used less tokens reserved, then of each rule the
 * bucket that they were reserved in (-1: none).
 */
export const SETTLE_SCRIPT = `${COMMON}
local request, beyond = ARGV[2], tonumber(ARGV[3])
for i = 1, #KEYS / 2 do
  local counts, slots, taken = KEYS[2 * i - 1], KEYS[2 * i], tonumber(ARGV[3 + i])
  redis.call('ZREM', slots, request)
  if taken >= 0 and beyond < 0 then
    local slot = 't' .. taken % COUNT
    local kept = redis.call('HMGET', counts, 'l', slot)
    local last = tonumber(kept[1] or '')
    if last and taken <= last and taken > last - COUNT then
      local given = math.min(-beyond, tonumber(kept[2] or 0))
      redis.call('HINCRBY', counts, slot, -given)
      redis.call('HINCRBY', counts, 't', -given)
    end
  elseif taken >= 0 and beyond > 0 then
    local last, requests, tokens = advance(counts)
    redis.call('HINCRBY', counts, 't' .. last % COUNT, beyond)
    redis.call('HSET', counts, 'l', last, 'r', requests, 't', tokens + beyond, 'n', last)
    keep(counts)
  end
end
return 1
`

/** KEYS: slots, one key for each hold. ARGV: time, lease in ms, then the request of each. */
export const RENEW_SCRIPT = `${COMMON}
local lease = tonumber(ARGV[2])
for i, slots in ipairs(KEYS) do
  redis.call('ZADD', slots, now + lease, ARGV[2 + i])
  redis.call('PEXPIRE', slots, lease + WIDTH)
end
return 1
`
