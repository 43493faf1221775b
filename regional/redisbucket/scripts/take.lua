-- Serves requests on several sets of buckets, one set after the other. Of one set
-- it serves all requests in their order: each takes from all buckets or from none, or
-- gives back to them where a cost is negative.
-- KEYS: state, then the buckets of each set.
-- ARGV: incarnation, config version; how many standing shares follow, and of each
--   its mode, rate, per, burst, base, since, from, how far below zero a level may get,
--   or -1 less that for requests that settle, lasts, and kind; then for each set: how
--   many buckets and how many runs, and 1 if somebody wants to draw ahead, else 0; the
--   standing share of each bucket by its number; if somebody does, how much to draw ahead
--   of each bucket; and for each run: how many requests, and what each of them costs in
--   each bucket.
-- Reply: {0} when stale; else {1, now, then for each set: for each bucket holding,
--   negative where there is no record, 8 more where tokens drawn ahead keep room in the
--   burst, level before all requests, unspent, then that room, and on a lease: rate, per,
--   burst, epoch; for a sliding window how long until all its places are free, now and
--   once something is admitted, and how many can be given back; for each run how many
--   requests are admitted, the first ones, and for each sliding window how long the
--   others wait; and if somebody wants to draw ahead, for each bucket how much is drawn
--   and how long that may be used}.
local st = call('HMGET', KEYS[1], 'inc', 'session', 'deadline', 'cfg', 'hwm')
inc, session = st[1], st[2]
if inc ~= ARGV[1] or st[4] ~= ARGV[2] then return { 0 } end
local now = clock()
high = st[5] + 0
if high < now then high = now end
local deadline = st[3] + 0
live = session ~= '0' and high < deadline

-- The level of bucket w after n requests, one after the other, that give back or that
-- settle down to a lowest level. No sum is beyond 2^53: the level goes to zero first.
local function unusual(level, cost, n, w)
  local was, x, burst = level, math.abs(cost), math.max(0, w[7] - (w.held or 0))
  if w[10] == ALLOWED or cost == 0 then return level end
  if cost > 0 then
    local lowest = math.min(level, w[8][8] + 1)
    if level > 0 then
      local m = math.min(n, floor(level / x))
      level, n = level - m * x, n - m
      if n > 0 and level > 0 then level, n = math.max(level - x, lowest), n - 1 end
    end
    if n > floor((level - lowest) / x) then level = lowest else level = level - n * x end
  elseif w[10] ~= DENIED and (not w[3] or w[13] or level ~= w[1]) then -- a record that there is, or will be
    if w.f then
      local back = canback(w.f)
      if n <= floor(back / x) then back = n * x end
      level = level + back
    else
      if level < 0 then
        local m = math.min(n, floor(-level / x))
        level, n = level + m * x, n - m
        if n > 0 and level < 0 then level, n = level + x, n - 1 end
      end
      if level >= burst or n > floor((burst - level) / x) then level = burst else level = level + n * x end
      if level >= burst then w[2], w[12] = w[2] + w[12], 0 end -- a full bucket has no unspent time
    end
  end
  if level ~= was then
    w[13] = true
    if level > was then w[14] = true end
  end
  return level
end

-- What of bucket w, at level after all else, is drawn ahead, and how long it may be used:
-- see draw in package bucket.
local SPAN = 100000 -- bucket.DrawSpan
local function draw(level, w, ahead)
  local slot, holding = w.slot, w[10]
  if ahead == 0 or not slot or holding ~= LEASE and holding ~= STANDING then return 0, 0 end
  local t, drawn = math.max(high, slot.at), 0
  local ends = t + SPAN
  if holding == LEASE then ends = math.min(ends, deadline, slot.over or deadline) end
  local open = t < slot.till
  if open then ends, drawn = math.min(ends, slot.till), slot.drawn end
  if ends - t < SPAN / 10 then return 0, 0 end
  local part, gain = floor(w[7] / 8), refill(0, SPAN, w[5], w[6], w[7])
  if part < floor(gain / 2) then return 0, 0 end
  local g = math.min(ahead, level - floor(w[7] / 2), part - drawn, gain - drawn)
  if g <= 0 or g < floor(ahead / 4) then return 0, 0 end
  w.drawn = int(drawn + g) .. ' ' .. int(open and slot.till or ends)
  return g, ends - t
end

-- What a run has made of the levels of the sliding windows among its buckets is done to
-- their places; and how long those wait that it denies.
local function places(reply, n, writes, level, buckets, admitted, a)
  for i = 1, buckets do
    local f, cost, wait = writes[i].f, math.max(ARGV[a + i] + 0, 0), 0
    if f then
      if admitted > 0 then
        local more = f.burst - level[i] - occupied(f)
        if more > 0 then occupy(f, f.at, more) elseif more < 0 then giveback(f, -more) end
      end
      if admitted < ARGV[a] + 0 and cost > level[i] and cost <= f.burst then wait = awaits(f, cost - level[i]) end
      n = n + 1
      reply[n] = wait
    end
  end
  return n
end

local shares, a = {}, 4
for i = 1, ARGV[3] + 0 do
  shares[i] = { ARGV[a], ARGV[a + 1] + 0, ARGV[a + 2] + 0, ARGV[a + 3] + 0, ARGV[a + 4] + 0, ARGV[a + 5] + 0, ARGV[a + 6] + 0, ARGV[a + 7] + 0, ARGV[a + 8] + 0, ARGV[a + 9] + 0 }
  a = a + 10
end

local reply, n = { 1, high, 0, 0, 0, 0 }, 2
local before, key = 1, 1 -- the key before this set's first, and the key at hand
local words = #ARGV
local level, writes = {}, {}
while a <= words do
  local buckets, runs, draws = ARGV[a] + 0, ARGV[a + 1] + 0, ARGV[a + 2] == '1'
  a = a + 3
  local sliding, served = false, false
  for i = 1, buckets do
    key = before + i
    local s = shares[ARGV[a] + 0]
    a = a + 1
    local unspent, at, holding, rate, per, burst, epoch, found, lease, last, away, drawn, till, ends, f, _
    if s[10] == 0 then
      level[i], unspent, at, holding, rate, per, burst, epoch, found, lease, last, away, _, _, drawn, till, ends =
        look(KEYS[key], now, s[1], s[2], s[3], s[4], s[5], s[6], s[7])
    else
      f, sliding = frame(KEYS[key], now, s, s[10]), true
      level[i], unspent, at, holding, rate, per, burst, epoch, found = f.level, 0, 0, f.holding, 0, f.length, f.burst, f.epoch, f.found
    end
    reply[n + 1], reply[n + 2], reply[n + 3] = found and holding or -holding, level[i], unspent
    n = n + 3
    local held = drawn and at < till and drawn > 0 and drawn
    if held then
      reply[n - 2], reply[n + 1] = holding + 8, held
      n = n + 1
    end
    if epoch > 0 then
      reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = rate, per, burst, epoch
      n = n + 4
    end
    writes[i] = { level[i], at - unspent, not found, lease and not last, rate, per, burst, s, last, holding, away, unspent }
    if held then writes[i].held = held end
    if draws and drawn then writes[i].slot = { at = at, drawn = drawn, till = till, over = ends } end
    if f then
      reply[n + 1], reply[n + 2], reply[n + 3] = over(f), fresh(f), canback(f)
      n = n + 3
      writes[i].f = f
    end
  end
  local aheads = a - 1
  if draws then a = a + buckets end
  for _ = 1, runs do
    local admitted = ARGV[a] + 0
    for i = 1, buckets do
      local cost, w = ARGV[a + i] + 0, writes[i]
      local holding, debt, least = w[10], w[8][8], cost
      if debt ~= 0 then least = (debt < 0 or cost < 0) and 0 or math.max(cost - debt, 1) end
      if least > 0 and holding ~= ALLOWED then
        -- The quotient is exact: its factors are below 2^53.
        if level[i] < least or holding == DENIED then admitted = 0
        elseif level[i] - least < cost * (admitted - 1) then admitted = floor((level[i] - least) / cost) + 1 end
      end
    end
    if admitted > 0 then
      served = true
      for i = 1, buckets do
        local cost, w = ARGV[a + i] + 0, writes[i]
        if cost < 0 or w[8][8] < 0 then level[i] = unusual(level[i], cost, admitted, w)
        elseif w[10] ~= ALLOWED then level[i] = level[i] - cost * admitted end
      end
    end
    n = n + 1
    reply[n] = admitted
    if sliding then n = places(reply, n, writes, level, buckets, admitted, a) end
    a = a + 1 + buckets
  end
  if draws then
    for i = 1, buckets do
      local granted, span = 0, 0
      if served then granted, span = draw(level[i], writes[i], ARGV[aheads + i] + 0) end
      if granted > 0 then level[i], writes[i][13] = level[i] - granted, true end
      reply[n + 1], reply[n + 2] = granted, span
      n = n + 2
    end
  end
  -- Everything about this set is computed: from here on nothing can fail but the
  -- server.
  for i = 1, buckets do
    local w = writes[i]
    if (level[i] ~= w[1] or w[13]) and w.f then
      keep(w.f, now)
    elseif level[i] ~= w[1] or w[13] then
      local s = w[8]
      store(KEYS[before + i], level[i], w[2], w[3], w[4], lifetime(level[i], w[5], w[6], w[7], s[2], s[3], s[4], w[9], w[11], s[9]))
      if w.drawn then call('HSET', KEYS[before + i], 'drawn', w.drawn) end
      if w[14] and apart then call('HSET', KEYS[before + i], 'given', int(high)) end
    end
  end
  before = before + buckets
end
return reply
