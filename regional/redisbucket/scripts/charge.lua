-- Takes what was admitted while the store was away; levels may go below zero.
-- KEYS: state, bucket...
-- ARGV: incarnation, then per bucket: tokens, and the standing share's rate, per,
--   burst, base, since, from, lasts, kind.
-- Reply: {1}; {0} other incarnation.
local st = call('HMGET', KEYS[1], 'inc', 'session', 'deadline', 'hwm')
inc, session = st[1], st[2]
if inc ~= ARGV[1] then return { 0 } end
local now = clock()
high = math.max(now, st[4] + 0)
live = session ~= '0' and high < st[3] + 0
for i = 2, #KEYS do
  local a = 2 + (i - 2) * 9
  local srate, sper, sburst = ARGV[a + 1] + 0, ARGV[a + 2] + 0, ARGV[a + 3] + 0
  if ARGV[a + 8] ~= '0' then
    local f = frame(KEYS[i], now, { '0', srate, sper, sburst, ARGV[a + 4] + 0, ARGV[a + 5] + 0 }, ARGV[a + 8] + 0)
    occupy(f, f.at, ARGV[a] + 0)
    keep(f, now)
  else
    local level, unspent, at, _, rate, per, burst, _, found, lease, last, away =
      look(KEYS[i], now, '0', srate, sper, sburst, ARGV[a + 4], ARGV[a + 5], ARGV[a + 6])
    level = math.max(level - ARGV[a], -MAX)
    store(KEYS[i], level, at - unspent, not found, lease and not last,
      lifetime(level, rate, per, burst, srate, sper, sburst, last, away, ARGV[a + 7] + 0))
  end
end
return { 1 }
