-- Ends a session in this region for ever: its deadline is not trusted.
-- KEYS: state
-- ARGV: session.
-- Reply: {1}; {0} when the region has no incarnation.
local s = call('HMGET', KEYS[1], 'session', 'min')
if not s[1] then return { 0 } end
local session = tonumber(ARGV[1])
if session == 0 or session < tonumber(s[1]) then return { 1 } end
call('HSET', KEYS[1], 'session', '0', 'deadline', '0', 'min', int(math.max(tonumber(s[2]), session + 1)))
return { 1 }
