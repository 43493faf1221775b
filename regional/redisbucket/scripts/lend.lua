-- Takes over what an earlier incarnation has on loan.
-- KEYS: state, lent shares, bucket...
-- ARGV: incarnation, how long, whether these are the last, then per bucket: its
--   key, and the standing share's rate, per, burst.
-- Reply: {1}; {0} other incarnation.
local st = call('HMGET', KEYS[1], 'inc', 'session', 'deadline', 'hwm', 'lents')
inc, session = st[1], st[2]
if inc ~= ARGV[1] then return { 0 } end
local now, hwm = clock(), st[4] + 0
high = math.max(now, hwm)
for i = 3, #KEYS do
  local key, a = KEYS[i], 4 + (i - 3) * 4
  local r = call('HMGET', key, 'level', 'at', 'inc', 'lease', 'away')
  local found = r[3] == inc
  local level, at, away, lease = 0, now, 0, r[4]
  if found then level, at, away = r[1] + 0, r[2] + 0, (r[5] or 0) + 0 else call('HDEL', key, 'drawn') end
  away = math.max(away, math.max(at, high) + ARGV[2])
  call('HSET', key, 'level', int(level), 'at', int(at), 'inc', inc, 'away', int(away))
  call('HSET', KEYS[2], ARGV[a], int(away))
  local srate, sper, sburst = ARGV[a + 1] + 0, ARGV[a + 2] + 0, ARGV[a + 3] + 0
  if sburst <= 0 then srate, sburst = 0, MAX end -- unknown yet: kept until the next write
  local rate, per, burst, leased = srate, sper, sburst, nil
  if lease then
    local ses, lrate, lper, lburst, released = string.match(lease, '^(%d+) %d+ (%d+) (%d+) (%d+) %d+ (%d)')
    if found and ses == session and session ~= '0' then
      leased = true
      if released == '0' then rate, per, burst = lrate + 0, lper + 0, lburst + 0 end
    else
      call('HDEL', key, 'lease')
    end
  end
  local ttl = lifetime(level, rate, per, burst, srate, sper, sburst, leased, away - now, 0)
  call('PEXPIRE', key, ttl)
end
call('HSET', KEYS[1], 'hwm', int(high), 'lents', int((st[5] or 0) + 1))
if ARGV[3] == '1' then call('HSET', KEYS[1], 'known', '1') end
return { 1 }
