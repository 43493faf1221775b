-- Stores a newer configuration and keeps the one before it.
-- KEYS: state, config, previous config
-- ARGV: incarnation, version, blob.
-- Reply: {code}; 1 adopted (now or before), 0 other incarnation, -1 older version.
local s = call('HMGET', KEYS[1], 'inc', 'cfg', 'cfgsince', 'hwm')
if s[1] ~= ARGV[1] then return { 0 } end
local now, hwm = clock(), tonumber(s[4])
local high = math.max(now, hwm)
local version, current = tonumber(ARGV[2]), tonumber(s[2])
if version <= current then
  if now > hwm then call('HSET', KEYS[1], 'hwm', int(now)) end
  return { version == current and 1 or -1 }
end
local old = call('GET', KEYS[2])
if old then call('SET', KEYS[3], old) end
call('SET', KEYS[2], ARGV[3])
call('HSET', KEYS[1], 'cfg', ARGV[2], 'cfgsince', int(high), 'prev', s[2], 'prevsince', s[3], 'hwm', int(high))
return { 1 }
