-- Gives back what a take has charged, where the bucket is still the one that was
-- charged.
--
-- Had it not been charged, the bucket might have been full for a while and gained
-- nothing; what it gained instead is not given back a second time. Of two that are
-- given back to one bucket, the later does not know how full it would have been, and
-- leaves out all that was gained. So the level and what is still to be given back are
-- never more than the burst together, and grow no faster than the bucket. A bucket
-- that somebody has given tokens back to since (take.lua) gets nothing: they may have
-- filled the room already.
-- KEYS: state, bucket...
-- ARGV: incarnation, config version, then per bucket: tokens, mode, the standing
--   share's rate, per, burst, base, since, from, lasts, kind, the epoch of the lease, 0
--   for none, and when it was charged and its level before.
-- Reply: {buckets that took it back}.
local st = call('HMGET', KEYS[1], 'inc', 'session', 'deadline', 'cfg', 'hwm')
inc, session = st[1], st[2]
if inc ~= ARGV[1] or st[4] ~= ARGV[2] then return { 0 } end
local now = clock()
high = math.max(now, st[5] + 0)
live = session ~= '0' and high < st[3] + 0

-- vacate gives back places in a sliding window that were occupied at a time, where
-- that is one of the last. It reports whether it did.
local function vacate(f, at, cost)
  if f.kind == 2 then
    local count
    if at >= f.start then count = 'cur' elseif at >= f.start - f.length then count = 'prev' end
    if not count or f[count] == 0 then return false end
    f[count] = math.max(0, f[count] - cost)
    return true
  end
  if f.sum == 0 then return false end
  if f.newest == at then
    cost = math.min(cost, f.cost)
    f.cost, f.sum = f.cost - cost, f.sum - cost
    return cost > 0
  end
  for i = f.tail, math.max(f.head, f.tail - 1), -1 do
    local text = logchunk(f, i)
    local sum, last, from = string.match(text, '^(%d+) (%d+):()')
    if i == f.head and f.skip > 1 then from = f.skip end
    local before, had, after = string.match(';' .. string.sub(text, from), '^(.*;)' .. int(at) .. ' (%d+)(;.*)$')
    if before then
      cost = math.min(cost, had + 0)
      f.sum = f.sum - cost
      local head = int(sum - cost) .. ' ' .. last .. ':'
      call('HSET', f.key, 'w' .. i, head .. string.sub(before, 2) .. int(at) .. ' ' .. int(had - cost) .. after)
      if i == f.head and f.skip > 1 then f.skip = #head + 1 end -- what was skipped is left out
      return cost > 0
    end
  end
  return false
end

local n = 0
for i = 2, #KEYS do
  local key, a = KEYS[i], 3 + (i - 2) * 13
  local tokens, charged = ARGV[a] + 0, ARGV[a + 11] + 0
  local srate, sper, sburst = ARGV[a + 2] + 0, ARGV[a + 3] + 0, ARGV[a + 4] + 0
  if ARGV[a + 9] ~= '0' then
    local f = frame(key, now, { ARGV[a + 1], srate, sper, sburst, ARGV[a + 5] + 0, ARGV[a + 6] + 0 }, ARGV[a + 9] + 0)
    if f.found and vacate(f, charged, tokens) then
      n = n + 1
      keep(f, now)
    end
  else
    local level, unspent, at, _, rate, per, burst, epoch, found, lease, last, away, _, loan =
      look(key, now, ARGV[a + 1], srate, sper, sburst, ARGV[a + 5], ARGV[a + 6], ARGV[a + 7])
    -- A clock behind the time of the charge does not tell what was gained since, and
    -- the rate now does not where a loan has come or gone.
    if found and loan == '' and epoch == ARGV[a + 10] + 0 and now >= charged then
      local gained = 0
      if rate > 0 and per > 0 then gained = widediv(rate, now - charged, per) + 1 end -- the fraction it had
      local marks = call('HMGET', key, 'refunded', 'given')
      local other = marks[1]
      if not other or other + 0 < charged then
        gained = math.max(0, gained - math.max(0, burst - ARGV[a + 12]))
      end
      tokens = math.min(tokens - gained, burst - level)
      if marks[2] and marks[2] + 0 >= charged then tokens = 0 end
      if tokens > 0 then
        n = n + 1
        level = level + tokens
        if level >= burst then unspent = 0 end
        call('HSET', key, 'refunded', int(now))
        store(key, level, at - unspent, false, lease and not last,
          lifetime(level, rate, per, burst, srate, sper, sburst, last, away, ARGV[a + 8] + 0))
      end
    end
  end
end
return { n }
