-- The region and its buckets, for the scripts that touch buckets.
local inc, session, live -- the region's incarnation, session (text), and whether its deadline is ahead
local high -- the latest time that the region has seen

-- What a bucket runs on; the numbers are bucket.Holding.
local LEASE, STANDING, NOTHING, HOLD, DENIED, ALLOWED = 1, 2, 3, 4, 5, 6

-- floor(a*b/c) and the remainder, for a*b beyond 2^53, 0 <= a, b < 2^53 and
-- 0 < c <= 2^49, like quota's mulDiv: (MAX, 0) when the quotient exceeds MAX.
--
-- Dekker: a*b = p + e and q*c = s + f exactly, each half computed from halves of
-- 26 bits (Veltkamp's split). The quotient of the rounded product is off by a few
-- units at most; the exact remainder corrects it, and c <= 2^49 keeps a dozen
-- remainders below 2^53.
local function widediv(a, b, c)
  local p = a * b
  if p / c >= MAX + 9 then return MAX, 0 end
  local q = floor(p / c)
  if q > MAX then q = MAX end
  local t = 134217729 * a
  local ah = t - (t - a)
  local al = a - ah
  t = 134217729 * b
  local bh = t - (t - b)
  local bl = b - bh
  local e = ((ah * bh - p) + ah * bl + al * bh) + al * bl
  local s = q * c
  t = 134217729 * q
  local qh = t - (t - q)
  local ql = q - qh
  t = 134217729 * c
  local ch = t - (t - c)
  local cl = c - ch
  local f = ((qh * ch - s) + qh * cl + ql * ch) + ql * cl
  local r = (p - s) + (e - f)
  while r < 0 do q, r = q - 1, r + c end
  while r >= c do
    if q >= MAX then return MAX, 0 end
    q, r = q + 1, r - c
  end
  return q, r
end

-- The level after elapsed, and the part of elapsed not turned into tokens yet.
local function refill(level, elapsed, rate, per, burst)
  if level >= burst then return burst, 0 end
  if elapsed <= 0 or rate <= 0 or per <= 0 then return level, 0 end
  local p, gained, rest = rate * elapsed
  if p <= MAX then
    gained = floor(p / per)
    rest = p - gained * per
  else
    gained, rest = widediv(rate, elapsed, per)
  end
  if gained >= burst - level then return burst, 0 end
  return level + gained, floor(rest / rate)
end

-- The same from one time to another, beside the tokens that are drawn ahead until till:
-- see draw.go in package bucket.
local function accrue(level, from, to, rate, per, burst, drawn, till)
  local unspent = 0
  if from < till then
    level, unspent = refill(level, math.min(to, till) - from, rate, per, math.max(0, burst - drawn))
    if to <= till then return level, unspent end
    from = till
  end
  return refill(level, to - from + unspent, rate, per, burst)
end

-- look reads and refills the bucket of key at time now; mode is a digit. It
-- returns level, unspent, the time they refer to, holding, rate, per, burst and
-- epoch of what is in force; then for a write: found, a record of this
-- incarnation; lease, the record's lease text or what else it holds of another
-- incarnation; last, the epoch of that lease when
-- it is of the region's session; away, how long the standing share is on loan
-- still; then for apply: surrendered, the lease's stored answer, and the text of
-- its loan; then drawn and till, the tokens drawn ahead and until when; and the end of
-- a loan that is in force.
local function look(key, now, mode, rate, per, burst, base, since, from)
  local r = call('HMGET', key, 'level', 'at', 'inc', 'lease', 'away', 'drawn')
  local found, lease, last, surrendered, loan = r[3] == inc, r[4], nil, nil, ''
  local drawn, till = 0, 0
  if found and r[6] then
    drawn, till = string.match(r[6], '^(%d+) (%d+)$')
    drawn, till = drawn + 0, till + 0
  end
  local away = found and r[5] and r[5] + 0 or 0
  if found and lease and session ~= '0' then
    local ses, epoch, lrate, lper, lburst, back, released, rest =
      string.match(lease, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d)(.*)$')
    if ses == session then
      last, surrendered, loan = epoch + 0, back, rest
      if released == '0' and (live or mode == '1') then
        local over
        lrate, lper, lburst = lrate + 0, lper + 0, lburst + 0
        if live and loan ~= '' then
          local more, _, wider, ends = string.match(loan, '^ (%d+) (%d+) (%d+) (%d+)$')
          if high < ends + 0 then lrate, lburst, over = lrate + more, lburst + wider, ends + 0 end
        end
        local at, clock = r[2] + 0, now
        if now < at then now = at end
        local level, unspent = accrue(r[1] + 0, at, now, lrate, lper, lburst, drawn, till)
        return level, unspent, now, live and LEASE or HOLD, lrate, lper, lburst, last,
          found, lease, last, away - clock, surrendered, loan, drawn, till, over
      end
    end
  end

  -- A share that was lent begins again when the loan is over, empty.
  local clock = now
  if away > since + 0 then
    since, base = away, 0
    if now < away then rate, burst = 0, 0 end
  end

  local holding = STANDING
  if not live and mode == '2' then holding = DENIED
  elseif not live and mode == '3' then holding = ALLOWED
  elseif burst <= 0 then holding = NOTHING end
  if not found then
    local level = refill(base + 0, now - from, rate, per, burst)
    return level, 0, now, holding, rate, per, burst, 0, false, lease or r[5] or r[6], nil, -now, nil, '', drawn, till
  end
  local level, at = r[1] + 0, r[2] + 0
  if now < at then now = at end
  -- What was above the burst is cut, not full; and a share says nothing of the
  -- time before it, in which a smaller one may have cut more.
  if level > burst then level = burst end
  if at < since + 0 then
    at = since + 0
    if level > base + 0 then level = base + 0 end
  end
  local unspent
  level, unspent = accrue(level, at, now, rate, per, burst, drawn, till)
  return level, unspent, now, holding, rate, per, burst, 0, found, lease, last, away - clock, surrendered, loan, drawn, till
end

-- Microseconds until a bucket is full, 20 years for one that never is.
local function tofull(level, rate, per, burst)
  if level >= burst then return 0 end
  if rate <= 0 or per <= 0 then return 630720000000000 end
  return (burst - level) * per / rate
end

-- How long a record must live, in milliseconds: until it is full as what is in
-- force and as the standing share, which gains nothing while it is away; a second
-- more, which covers how long drawn tokens keep a bucket from being full, with a lease an
-- hour more, at most 20 years. A bucket of a window is never
-- full again; lasts is how long it is needed, and 0 for all others.
local function lifetime(level, rate, per, burst, srate, sper, sburst, leased, away, lasts)
  if lasts > 0 then return int(math.ceil(math.min(lasts + 1000000, 630720000000000) / 1000)) end
  local us = 0
  if away <= 0 or burst > 0 then us = tofull(level, rate, per, burst) end
  if leased or away > 0 then
    local standing = tofull(level, srate, sper, sburst)
    if away > 0 then standing = standing + away end
    if us < standing then us = standing end
  end
  if leased then us = us + 3600000000 end
  us = us + 1000000
  if us > 630720000000000 then us = 630720000000000 end
  return int(math.ceil(us / 1000))
end

-- store writes a bucket. fresh: its record is of no or of another incarnation;
-- void: it has a lease of an older session, or a loan or drawn tokens of an older
-- incarnation, which can never be in force again.
local function store(key, level, at, fresh, void, ttl)
  if fresh then
    call('HSET', key, 'level', int(level), 'at', int(at), 'inc', inc)
  else
    call('HSET', key, 'level', int(level), 'at', int(at))
  end
  if void and fresh then call('HDEL', key, 'lease', 'away', 'drawn')
  elseif void then call('HDEL', key, 'lease') end
  call('PEXPIRE', key, ttl)
end
