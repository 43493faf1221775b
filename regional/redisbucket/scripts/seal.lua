-- Takes a partition of a cluster from one incarnation of the region into the
-- next. Whatever session it had is over: it belonged to the old one.
-- KEYS: state
-- ARGV: incarnation of the partition, the region's old and new incarnation.
-- Reply: {code}; 1 sealed, 0 the partition is not what the caller has read.
local s = call('HMGET', KEYS[1], 'inc', 'of', 'session', 'min', 'node')
if s[1] ~= ARGV[1] or s[2] ~= ARGV[2] or s[5] ~= call('CLUSTER', 'MYID') then return { 0 } end
local ended, least = tonumber(s[3]), tonumber(s[4])
if ended > 0 then least = math.max(least, ended + 1) end
call('HSET', KEYS[1], 'of', ARGV[3], 'session', '0', 'deadline', '0', 'min', int(least), 'first', '0')
return { 1 }
