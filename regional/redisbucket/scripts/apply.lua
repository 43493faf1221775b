-- Applies one assignment once; a repeat gets the stored answer.
-- KEYS: state, bucket
-- ARGV: incarnation, session, epoch, lease rate, per, burst, credit, release,
--   and the standing share's rate, per, burst, base, since, from.
-- Reply: {code, surrendered}; 1 applied, 0 other incarnation, -1 other session,
--   -2 deadline passed, -3 older epoch.
local st = call('HMGET', KEYS[1], 'inc', 'session', 'deadline', 'hwm')
inc, session = st[1], st[2]
if inc ~= ARGV[1] then return { 0, 0 } end
local now, hwm = clock(), st[4] + 0
local high = math.max(now, hwm)
live = session ~= '0' and high < st[3] + 0

local key, epoch, release = KEYS[2], ARGV[3] + 0, ARGV[8] == '1'
local srate, sper, sburst = ARGV[9] + 0, ARGV[10] + 0, ARGV[11] + 0
local level, _, at, _, _, _, _, _, _, _, last, surrendered =
  look(key, now, '0', srate, sper, sburst, ARGV[12], ARGV[13], ARGV[14])
local reply
if session == '0' or session ~= ARGV[2] then reply = { -1, 0 }
elseif last and last == epoch and epoch > 0 then reply = { 1, surrendered + 0 }
elseif not live then reply = { -2, 0 }
elseif epoch == 0 or last and epoch < last then reply = { -3, 0 } end
if high > hwm then call('HSET', KEYS[1], 'hwm', int(high)) end
if reply then return reply end

-- The sum is never formed where it could exceed 2^53.
local rate, per, burst, credit = ARGV[4] + 0, ARGV[5] + 0, ARGV[6] + 0, ARGV[7] + 0
if level >= 0 and credit > burst - level then
  surrendered = math.min(credit - (burst - level), MAX)
  level = burst
else
  level = level + credit
  surrendered = math.max(0, level - burst)
  level = math.min(level, burst)
end
local lease = '0 0 0'
if release then rate, per, burst = srate, sper, sburst
else lease = ARGV[4] .. ' ' .. ARGV[5] .. ' ' .. ARGV[6] end
-- The unspent time is given up: at the new rate it would be worth more.
call('HSET', key, 'level', int(level), 'at', int(at), 'inc', inc, 'lease',
  session .. ' ' .. ARGV[3] .. ' ' .. lease .. ' ' .. int(surrendered) .. ' ' .. ARGV[8])
local ttl = lifetime(level, rate, per, burst, srate, sper, sburst, true)
call('PEXPIRE', key, ttl)
return { 1, surrendered }
