-- Applies one assignment once; a repeat gets the stored answer.
-- KEYS: state, bucket, lent shares
-- ARGV: incarnation, session, epoch, lease rate, per, burst, credit, release,
--   the standing share's rate, per, burst, base, since, from; how long the share
--   is lent, 0 when it is not; the loan's rate, per, burst, credit and end, empty
--   where it stays as it is; how long a share is lent before the region says so; the
--   key; whether the share is not on loan any more; how long a fixed window lasts; and
--   of a sliding window its kind and the configuration that says what its share is.
-- Reply: {code, surrendered}; 1 applied, 0 other incarnation, -1 other session,
--   -2 deadline passed, -3 older epoch, -4 lent, but not all agents know it yet, or
--   more is drawn ahead than it leaves, -5 another configuration.
local st = call('HMGET', KEYS[1], 'inc', 'session', 'deadline', 'hwm', 'lents', 'cfg')
inc, session = st[1], st[2]
if inc ~= ARGV[1] then return { 0, 0 } end
local now, hwm = clock(), st[4] + 0
high = math.max(now, hwm)
live = session ~= '0' and high < st[3] + 0

local key, epoch, release = KEYS[2], ARGV[3] + 0, ARGV[8] == '1'
local srate, sper, sburst = ARGV[9] + 0, ARGV[10] + 0, ARGV[11] + 0
local lends, notice = ARGV[15] + 0, ARGV[21] + 0
local level, at, found, held, last, away, surrendered, loan, f, _
local drawn, till = 0, 0
if ARGV[25] == '0' then
  level, _, at, _, _, _, _, _, found, held, last, away, surrendered, loan, drawn, till =
    look(key, now, '0', srate, sper, sburst, ARGV[12], ARGV[13], ARGV[14])
else
  f = frame(key, now, { '0', srate, sper, sburst, ARGV[12] + 0, ARGV[13] + 0 }, ARGV[25] + 0)
  last, surrendered = f.last, f.back
end
-- Whether more is drawn ahead than the region has for itself from now on. A loan counts
-- where it does not end before the drawn tokens do.
local function unsettled()
  local own = ARGV[6] + 0
  if till > 0 and loan ~= '' then
    local wider, ends = string.match(loan, '^ %d+ %d+ (%d+) (%d+)$')
    if till <= ends + 0 then own = own + wider end
  end
  return high < till and drawn > own
end

local reply
if session == '0' or session ~= ARGV[2] then reply = { -1, 0 }
elseif last and last == epoch and epoch > 0 then
  reply = { 1, surrendered + 0 }
  -- While it is lent nothing is charged, so it was written when it was lent.
  if lends > 0 and high < math.min(call('HGET', key, 'at') + notice, now + away) then reply[1] = -4
  elseif unsettled() then reply[1] = -4 end
elseif not live then reply = { -2, 0 }
elseif epoch == 0 or last and epoch < last then reply = { -3, 0 } end
if high > hwm then call('HSET', KEYS[1], 'hwm', int(high)) end
if reply then return reply end
if f then
  if st[6] ~= ARGV[26] then return { -5, 0 } end
  return { 1, resize(f, now, session .. ' ' .. ARGV[3], ARGV[4], ARGV[5], ARGV[6] + 0, ARGV[8]) }
end

local rate, per, burst, credit = ARGV[4] + 0, ARGV[5] + 0, ARGV[6] + 0, ARGV[7] + 0
local lease, room = '0 0 0', burst
if release then
  rate, per, burst, loan = srate, sper, sburst, ''
else
  lease = ARGV[4] .. ' ' .. ARGV[5] .. ' ' .. ARGV[6]
  if ARGV[20] ~= '' then
    loan = ' ' .. ARGV[16] .. ' ' .. ARGV[17] .. ' ' .. ARGV[18] .. ' ' .. ARGV[20]
    if high < ARGV[20] + 0 then credit = credit + ARGV[19] end
  end
  if loan ~= '' then
    local _, lper, wider, ends = string.match(loan, '^ (%d+) (%d+) (%d+) (%d+)$')
    -- Over, or of another period than the lease is now.
    if high >= ends + 0 or lper ~= ARGV[5] then loan = '' else room = burst + wider end
  end
end
if high < till then room = math.max(0, room - drawn) end
-- The sum is never formed where it could exceed 2^53.
if level >= 0 and credit > room - level then
  surrendered = math.min(credit - (room - level), MAX)
  level = room
else
  level = level + credit
  surrendered = math.max(0, level - room)
  level = math.min(level, room)
end
-- The unspent time is given up: at the new rate it would be worth more.
call('HSET', key, 'level', int(level), 'at', int(at), 'inc', inc, 'lease',
  session .. ' ' .. ARGV[3] .. ' ' .. lease .. ' ' .. int(surrendered) .. ' ' .. ARGV[8] .. loan)
if held and not found then call('HDEL', key, 'away', 'drawn') end -- of another incarnation
if ARGV[23] == '1' and now + away > 0 then
  call('HDEL', key, 'away')
  call('HDEL', KEYS[3], ARGV[22])
  call('HSET', KEYS[1], 'lents', int((st[5] or 0) + 1))
  away = 0
end
if lends > 0 then
  away = math.max(now + away, math.max(at, high) + lends)
  call('HSET', key, 'away', int(away))
  call('HSET', KEYS[3], ARGV[22], int(away))
  call('HSET', KEYS[1], 'lents', int((st[5] or 0) + 1))
  away = away - now
end
local ttl = lifetime(level, rate, per, burst, srate, sper, sburst, true, away, ARGV[24] + 0)
call('PEXPIRE', key, ttl)
return { (lends > 0 or unsettled()) and -4 or 1, surrendered }
