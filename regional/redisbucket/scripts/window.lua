-- Sliding windows, for the scripts that touch buckets.
--
-- The record of such a bucket has no level of its own, but the places that are
-- occupied. A counter has them in the field win: when the present window began, and
-- what was admitted in the one before and in this one. A log has each admission:
--
--   win       head skip tail oldest newest cost sum
--   w<head>   sum last:time cost;time cost; ...
--   ...
--   w<tail>
--
-- The newest admission is in win itself, so that another one of the same microsecond
-- joins it. The others are in chunks, of which a take reads the first, if something in
-- it is over, and the last, if it admits. What of the first chunk is over is skipped:
-- skip is where the rest begins, 1 where that is all of it. Whoever looks at many
-- chunks does not read more of them than their sum and their last time.
local CHUNK = 768 -- bytes: about thirty admissions

local function logchunk(f, i) return f.edited and f.edited[i] or call('HGET', f.key, 'w' .. i) or '' end

-- Leaves out what is over.
local function prune(f)
  local limit = f.at - f.length
  if f.sum == 0 or f.newest <= limit then
    f.head, f.skip, f.sum = f.tail + 1, 1, 0
    return
  end
  while f.oldest <= limit do
    if f.head > f.tail then
      f.oldest = f.newest
      return
    end
    f.text = f.text or logchunk(f, f.head)
    local sum, last, from = string.match(f.text, '^(%d+) (%d+):()')
    if f.skip == 1 and last + 0 <= limit then
      f.head, f.text, f.sum = f.head + 1, nil, f.sum - sum
    else
      if f.skip > 1 then from = f.skip end
      local t, cost, rest = string.match(f.text, '^(%d+) (%d+);()', from)
      if not t then
        f.head, f.skip, f.text = f.head + 1, 1, nil
      elseif t + 0 <= limit then
        f.skip, f.sum = rest, f.sum - cost
      else
        f.oldest = t + 0
      end
    end
  end
end

-- Moves a counter to the window of a time.
local function roll(f, t)
  local start = t - math.fmod(t, f.length)
  if start > f.start then
    if start - f.length == f.start then f.prev = f.cur else f.prev = 0 end
    f.cur, f.start = 0, start
  end
end

-- What of a window's count is gone after elapsed.
local function gone(count, elapsed, length)
  if count == 0 then return 0 end
  return (refill(0, elapsed, count, length, MAX))
end

-- How long it takes until need of it is gone.
local function goes(count, length, need)
  local e = floor(need / count * length)
  while gone(count, e, length) < need do e = e + 1 end
  while e > 0 and gone(count, e - 1, length) >= need do e = e - 1 end
  return e
end

-- What counts at time t, which is that of the bucket where nothing else is said.
local function occupied(f, t)
  if f.kind == 2 then return f.prev - gone(f.prev, (t or f.at) - f.start, f.length) + f.cur end
  return f.sum
end

-- Occupies places from time t on, MAX in all at most.
local function occupy(f, t, cost)
  local most = MAX - occupied(f, t)
  if cost > most then cost = most end
  if cost <= 0 then return end
  if f.kind == 2 then
    f.cur = f.cur + cost
    return
  end
  if f.sum == 0 then
    f.oldest, f.newest, f.cost = t, t, cost
  elseif f.newest >= t then
    f.cost = f.cost + cost
  else
    f.push, f.pushed, f.pushedat = f.push .. int(f.newest) .. ' ' .. int(f.cost) .. ';', f.pushed + f.cost, f.newest
    f.newest, f.cost = t, cost
  end
  f.sum = f.sum + cost
end

-- Makes the admission before the newest the newest.
local function pop(f)
  if f.push ~= '' then
    local rest, t, cost = string.match(f.push, '^(.-)(%d+) (%d+);$')
    f.push, f.newest, f.cost = rest, t + 0, cost + 0
    f.pushed, f.pushedat = f.pushed - f.cost, (string.match(rest, '(%d+) %d+;$') or 0) + 0
    return
  end
  local text, first = logchunk(f, f.tail), f.tail == f.head
  local sum, from = string.match(text, '^(%d+) %d+:()')
  if first and f.skip > 1 then from = f.skip end
  local rest, t, cost = string.match(text, '^(.-)(%d+) (%d+);$', from)
  f.newest, f.cost = t + 0, cost + 0
  local last = string.match(rest, '(%d+) %d+;$')
  if not last then -- the chunk has no other
    f.tail = f.tail - 1
    if first then f.skip, f.text = 1, nil end
    return
  end
  local head = int(sum - cost) .. ' ' .. last .. ':'
  f.edited = f.edited or {}
  f.edited[f.tail] = head .. rest
  if first then
    f.text = head .. rest
    if f.skip > 1 then f.skip = #head + 1 end -- what was skipped is left out
  end
end

-- How many places can be given back.
local function canback(f) return f.kind == 2 and f.cur or f.sum end

-- Gives back the places of the youngest admissions.
local function giveback(f, cost)
  if f.kind == 2 then
    f.cur = math.max(0, f.cur - cost)
    return
  end
  while cost > 0 and f.sum > 0 do
    local n = math.min(cost, f.cost)
    cost, f.cost, f.sum = cost - n, f.cost - n, f.sum - n
    while f.cost == 0 and f.sum > 0 do pop(f) end
  end
  if f.sum == 0 then f.head, f.skip, f.text, f.push, f.pushed = f.tail + 1, 1, nil, '', 0 end
end

-- How long until all places are free.
local function over(f)
  if f.kind == 2 then
    local left = f.length - (f.at - f.start)
    if f.cur > 0 then return left + f.length end
    if f.prev > 0 then return left end
    return 0
  end
  if f.sum == 0 then return 0 end
  return f.newest - (f.at - f.length)
end

-- The same once something is admitted.
local function fresh(f)
  if f.kind == 2 then return 2 * f.length - (f.at - f.start) end
  return math.max(f.length, over(f))
end

-- How long until need of the occupied places are free.
local function awaits(f, need)
  if f.kind == 2 then
    local elapsed, keep = f.at - f.start, occupied(f) - need
    if keep >= f.cur then return goes(f.prev, f.length, f.prev - (keep - f.cur)) - elapsed end
    return f.length - elapsed + goes(f.cur, f.length, f.cur - keep)
  end
  local from, i, skip, text = f.at - f.length, f.head, f.skip, f.text
  while i <= f.tail + 1 do
    local sum
    if i > f.tail then
      text = f.push
    else
      text = text or logchunk(f, i)
      local first
      sum, first = string.match(text, '^(%d+) %d+:()')
      if skip == 1 then skip = first else sum = nil end
    end
    if sum and sum + 0 < need then
      need = need - sum
    else
      for t, cost in string.gmatch(string.sub(text, skip), '(%d+) (%d+);') do
        need = need - cost
        if need <= 0 then return t - from end
      end
    end
    i, skip, text = i + 1, 1, nil
  end
  return f.newest - from
end

-- frame reads the bucket of key at time now. share is what take knows of a standing
-- share: mode, rate, per, burst, base, since. Where the record says nothing
-- of the time at since, what was not known to be free then counts as occupied, see
-- frame in package bucket.
local function frame(key, now, share, kind)
  local r = call('HMGET', key, 'at', 'inc', 'lease', 'win')
  local found, lease, since = r[2] == inc, r[3], share[6]
  local f = { key = key, kind = kind, length = share[3], at = now, found = found, lease = lease, old = r[4],
    head = 1, skip = 1, tail = 0, oldest = 0, newest = 0, cost = 0, sum = 0, from = 1, till = 0, push = '', pushed = 0, start = 0, prev = 0, cur = 0 }
  if found then f.at = math.max(now, r[1] + 0) end
  local unknown = not found or r[1] + 0 < since
  if unknown and f.at < since then f.at = since end

  if f.kind == 2 then
    if found and f.old then
      local start, prev, cur = string.match(f.old, '^(%d+) (%d+) (%d+)$')
      f.start, f.prev, f.cur = start + 0, prev + 0, cur + 0
    end
    if unknown then
      roll(f, since)
      occupy(f, since, share[4] - share[5])
    end
    roll(f, f.at)
  else
    if f.old then
      local head, skip, tail, oldest, newest, cost, sum = string.match(f.old, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
      f.from, f.till = head + 0, tail + 0 -- the chunks that there are
      if found then
        f.head, f.skip, f.tail, f.oldest, f.newest, f.cost, f.sum = f.from, skip + 0, f.till, oldest + 0, newest + 0, cost + 0, sum + 0
      end
    end
    prune(f)
    if unknown and since > f.at - f.length then occupy(f, since, share[4] - share[5]) end
  end

  f.holding, f.burst, f.epoch = STANDING, share[4], 0
  if not live and share[1] == '2' then f.holding = DENIED
  elseif not live and share[1] == '3' then f.holding = ALLOWED
  elseif share[4] <= 0 then f.holding, f.burst = NOTHING, 0 end
  if found and lease and session ~= '0' then
    local ses, epoch, held, back, released, aim = string.match(lease, '^(%d+) (%d+) %d+ %d+ (%d+) (%d+) (%d) ?(%d*)$')
    if ses == session then
      f.last, f.back = epoch + 0, back
      if released ~= '1' and (live or share[1] == '1') then
        f.holding, f.burst, f.held, f.epoch = live and LEASE or HOLD, aim + 0, held + 0, f.last
        if released == '2' then f.burst = math.min(f.burst, share[4]) end -- leaving
      end
    end
  end
  f.held = f.held or f.burst -- what the ledger counts for the region
  f.level = f.burst - occupied(f)
  return f
end

-- keep writes a bucket; lease is the text of a new lease, nil where it stays what it
-- was.
local function keep(f, now, lease)
  local key, win, leased = f.key, nil, lease or f.last
  if f.kind == 2 then
    win = int(f.start) .. ' ' .. int(f.prev) .. ' ' .. int(f.cur)
  else
    -- What of the chunks that there were is over, or was of another incarnation.
    for i = f.from, f.found and math.min(f.till, f.head - 1) or f.till do call('HDEL', key, 'w' .. i) end
    if f.found then -- or was given back
      for i = math.max(f.from, f.tail + 1), f.till do call('HDEL', key, 'w' .. i) end
    end
    for i, text in pairs(f.edited or {}) do
      if i >= f.head and i <= f.tail then call('HSET', key, 'w' .. i, text) end
    end
    if f.push ~= '' then
      local text = f.head <= f.tail and logchunk(f, f.tail) or ''
      local sum, rest = string.match(text, '^(%d+) %d+:(.*)$')
      local skip = f.skip
      if not sum or #text >= CHUNK then f.tail, sum, rest = f.tail + 1, 0, '' end
      local head = int(sum + f.pushed) .. ' ' .. int(f.pushedat) .. ':'
      -- What is skipped stays so though the head has become longer.
      if f.tail == f.head and skip > 1 then f.skip = skip + #head + #rest - #text end
      call('HSET', key, 'w' .. f.tail, head .. rest .. f.push)
    end
    win = f.head .. ' ' .. f.skip .. ' ' .. f.tail .. ' ' .. int(f.oldest) .. ' ' .. int(f.newest) .. ' ' .. int(f.cost) .. ' ' .. int(f.sum)
  end
  call('HSET', key, 'level', '0', 'at', int(f.at), 'inc', inc, 'win', win)
  if lease then
    call('HSET', key, 'lease', lease)
  elseif f.lease and not f.last then
    call('HDEL', key, 'lease') -- of an older session: it can never be in force again
  end
  -- Until all places are free; with a lease an hour more.
  local life = f.at - now + over(f) + 1000000
  if leased then life = life + 3600000000 end
  local ttl = int(math.ceil(math.min(life, 630720000000000) / 1000))
  call('PEXPIRE', key, ttl)
end

-- resize gives a bucket a new lease, by which it admits from now on. Of what it has
-- beyond it what is occupied stays a part of the lease still. It returns what does not.
local function resize(f, now, head, rate, per, burst, release)
  local left = occupied(f)
  local rest = math.fmod(left, 1000000)
  if rest > 0 then left = math.min(left, MAX - 1000000) + 1000000 - rest end -- whole tokens
  left = math.max(burst, math.min(left, f.held))
  local surrendered = math.max(0, f.held - left)
  if release == '1' and left > burst then release = '2' end -- leaving
  if release == '1' then
    keep(f, now, head .. ' 0 0 0 ' .. int(surrendered) .. ' 1')
  else
    keep(f, now, head .. ' ' .. rate .. ' ' .. per .. ' ' .. int(left) .. ' ' .. int(surrendered) .. ' ' .. release .. ' ' .. int(burst))
  end
  return surrendered
end
