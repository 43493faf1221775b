-- Lets a partition of a cluster decide by a newer configuration. An older one
-- stays out: the region may have confirmed the newer.
-- KEYS: state
-- ARGV: incarnation of the partition, version.
-- Reply: {code}; 1 done, now or before, 0 other incarnation, -1 older version.
local s = call('HMGET', KEYS[1], 'inc', 'cfg')
if s[1] ~= ARGV[1] then return { 0 } end
local version, current = tonumber(ARGV[2]), tonumber(s[2])
if version < current then return { -1 } end
if version > current then call('HSET', KEYS[1], 'cfg', ARGV[2]) end
return { 1 }
