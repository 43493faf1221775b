-- Serves requests on several sets of buckets, one set after the other. Of one set
-- it serves all requests in their order: each takes from all buckets or from none.
-- KEYS: state, then the buckets of each set.
-- ARGV: incarnation, config version; how many standing shares follow, and of each
--   its mode, rate, per, burst, base, since, from, kind; then for each set: how many buckets
--   and how many runs, the standing share of each bucket by its number, and for
--   each run: how many requests, and what each of them costs in each bucket.
-- Reply: {0} when stale; else {1, now, then for each set: for each bucket holding,
--   level before all requests, unspent, and on a lease: rate, per, burst, epoch; for
--   a sliding window how long until all its places are free, now and once something is
--   admitted; and for each run how many requests are admitted, the first ones, and for
--   each sliding window how long the others wait}.
local st = call('HMGET', KEYS[1], 'inc', 'session', 'deadline', 'cfg', 'hwm')
inc, session = st[1], st[2]
if inc ~= ARGV[1] or st[4] ~= ARGV[2] then return { 0 } end
local now = clock()
high = st[5] + 0
if high < now then high = now end
live = session ~= '0' and high < st[3] + 0

-- What a run does to the sliding windows among its buckets, and how long those wait
-- that it denies.
local function places(reply, n, writes, level, buckets, admitted, a)
  for i = 1, buckets do
    local f, cost, wait = writes[i][12], ARGV[a + i] + 0, 0
    if f then
      if f.holding ~= ALLOWED and admitted > 0 then occupy(f, f.at, cost * admitted) end
      if admitted < ARGV[a] + 0 and cost > level[i] and cost <= f.burst then wait = awaits(f, cost - level[i]) end
      n = n + 1
      reply[n] = wait
    end
  end
  return n
end

local shares, a = {}, 4
for i = 1, ARGV[3] + 0 do
  shares[i] = { ARGV[a], ARGV[a + 1] + 0, ARGV[a + 2] + 0, ARGV[a + 3] + 0, ARGV[a + 4] + 0, ARGV[a + 5] + 0, ARGV[a + 6] + 0, ARGV[a + 7] + 0 }
  a = a + 8
end

local reply, n = { 1, high, 0, 0, 0, 0 }, 2
local before, key = 1, 1 -- the key before this set's first, and the key at hand
local words = #ARGV
local level, writes = {}, {}
while a <= words do
  local buckets, runs = ARGV[a] + 0, ARGV[a + 1] + 0
  a = a + 2
  local sliding = false
  for i = 1, buckets do
    key = before + i
    local s = shares[ARGV[a] + 0]
    a = a + 1
    local unspent, at, holding, rate, per, burst, epoch, found, lease, last, away, f
    if s[8] == 0 then
      level[i], unspent, at, holding, rate, per, burst, epoch, found, lease, last, away =
        look(KEYS[key], now, s[1], s[2], s[3], s[4], s[5], s[6], s[7])
    else
      f, sliding = frame(KEYS[key], now, s), true
      level[i], unspent, at, holding, rate, per, burst, epoch = f.level, 0, 0, f.holding, 0, f.length, f.burst, f.epoch
    end
    reply[n + 1], reply[n + 2], reply[n + 3] = holding, level[i], unspent
    n = n + 3
    if epoch > 0 then
      reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = rate, per, burst, epoch
      n = n + 4
    end
    if f then
      reply[n + 1], reply[n + 2] = over(f), fresh(f)
      n = n + 2
    end
    writes[i] = { level[i], at - unspent, not found, lease and not last, rate, per, burst, s, last, holding, away, f }
  end
  for _ = 1, runs do
    local admitted = ARGV[a] + 0
    for i = 1, buckets do
      local cost, holding = ARGV[a + i] + 0, writes[i][10]
      if cost > 0 and holding ~= ALLOWED then
        -- The quotient is exact: its factors are below 2^53.
        if level[i] < cost or holding == DENIED then admitted = 0
        elseif level[i] < cost * admitted then admitted = floor(level[i] / cost) end
      end
    end
    if admitted > 0 then
      for i = 1, buckets do
        if writes[i][10] ~= ALLOWED then level[i] = level[i] - ARGV[a + i] * admitted end
      end
    end
    n = n + 1
    reply[n] = admitted
    if sliding then n = places(reply, n, writes, level, buckets, admitted, a) end
    a = a + 1 + buckets
  end
  -- Everything about this set is computed: from here on nothing can fail but the
  -- server.
  for i = 1, buckets do
    local w = writes[i]
    if level[i] ~= w[1] and w[12] then
      keep(w[12], now)
    elseif level[i] ~= w[1] then
      local s = w[8]
      store(KEYS[before + i], level[i], w[2], w[3], w[4], lifetime(level[i], w[5], w[6], w[7], s[2], s[3], s[4], w[9], w[11]))
    end
  end
  before = before + buckets
end
return reply
