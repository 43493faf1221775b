-- Takes from all buckets or from none.
-- KEYS: state, bucket...
-- ARGV: incarnation, config version, then per bucket: cost, mode, and the
--   standing share's rate, per, burst, base, since.
-- Reply: {0} when stale; else {1, now, admitted, then per bucket: holding,
--   level before the charge, unspent, and on a lease: rate, per, burst, epoch}.
local st = call('HMGET', KEYS[1], 'inc', 'session', 'deadline', 'cfg', 'hwm')
inc, session = st[1], st[2]
if inc ~= ARGV[1] or st[4] ~= ARGV[2] then return { 0 } end
local now = clock()
local high = st[5] + 0
if high < now then high = now end
live = session ~= '0' and high < st[3] + 0

local reply, n = { 1, high, 1, 0, 0, 0 }, 3
local writes = {}
local a = 3
for i = 2, #KEYS do
  local cost, mode = ARGV[a] + 0, ARGV[a + 1]
  local srate, sper, sburst = ARGV[a + 2] + 0, ARGV[a + 3] + 0, ARGV[a + 4] + 0
  local level, unspent, at, holding, rate, per, burst, epoch, found, lease, last =
    look(KEYS[i], now, mode, srate, sper, sburst, ARGV[a + 5], ARGV[a + 6])
  reply[n + 1], reply[n + 2], reply[n + 3] = holding, level, unspent
  n = n + 3
  if epoch > 0 then
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = rate, per, burst, epoch
    n = n + 4
  end
  if cost > 0 and holding ~= ALLOWED then
    if level < cost or holding == DENIED then
      reply[3] = 0
    elseif reply[3] == 1 then
      level = level - cost
      writes[#writes + 1] = { KEYS[i], level, at - unspent, not found, lease and not last,
        lifetime(level, rate, per, burst, srate, sper, sburst, last) }
    end
  end
  a = a + 7
end
-- Everything is computed: from here on nothing can fail but the server.
if reply[3] == 1 then
  for i = 1, #writes do
    local w = writes[i]
    store(w[1], w[2], w[3], w[4], w[5], w[6])
  end
end
return reply
