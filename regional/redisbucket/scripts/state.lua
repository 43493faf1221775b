-- Reads the region's state and advances its high-water mark.
-- KEYS: state
-- Reply: {now, incarnation, session, min session, deadline, config, since, first,
--   config since, previous config, its since, whether it is known what is on loan,
--   changes of that}.
local s = call('HMGET', KEYS[1], 'hwm', 'inc', 'session', 'min', 'deadline', 'cfg', 'since', 'first', 'cfgsince', 'prev', 'prevsince',
  'known', 'lents')
if not s[2] then return {} end
local now = clock()
local hwm = tonumber(s[1])
if now > hwm then call('HSET', KEYS[1], 'hwm', int(now)) end
local reply = { math.max(now, hwm), s[2] }
for i = 3, 13 do reply[i] = tonumber(s[i] or 0) end
return reply
