-- Lets a session's leases be used until deadline. The same session only gains
-- time; a newer one replaces it.
-- KEYS: state
-- ARGV: incarnation, session, deadline.
-- Reply: {code}; 1 renewed, 0 other incarnation, -1 old session.
local s = call('HMGET', KEYS[1], 'inc', 'session', 'deadline', 'min', 'hwm')
if s[1] ~= ARGV[1] then return { 0 } end
local now, hwm = clock(), tonumber(s[5])
if now > hwm then call('HSET', KEYS[1], 'hwm', int(now)) end
local session, current = tonumber(ARGV[2]), tonumber(s[2])
if session == 0 or session < current or session < tonumber(s[4]) then return { -1 } end
local deadline = tonumber(ARGV[3])
if session == current then deadline = math.max(deadline, tonumber(s[3])) end
call('HSET', KEYS[1], 'session', ARGV[2], 'deadline', int(deadline))
return { 1 }
