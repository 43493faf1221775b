-- Reads a partition of a cluster and advances its high-water mark.
-- KEYS: state
-- Reply: that of state.lua, and the incarnation of the region that the partition
--   is sealed into; empty when it was begun on another node, or never.
local s = call('HMGET', KEYS[1], 'hwm', 'inc', 'session', 'min', 'deadline', 'cfg', 'since', 'first', 'cfgsince', 'prev', 'prevsince',
  'known', 'lents', 'of', 'node')
if not s[2] or s[15] ~= call('CLUSTER', 'MYID') then return {} end
local now = clock()
local hwm = tonumber(s[1])
if now > hwm then call('HSET', KEYS[1], 'hwm', int(now)) end
local reply = { math.max(now, hwm), s[2] }
for i = 3, 13 do reply[i] = tonumber(s[i] or 0) end
reply[14] = s[14] or ''
return reply
