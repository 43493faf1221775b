-- Records that the coordinator called this incarnation the region's first.
-- KEYS: state
-- ARGV: incarnation.
-- Reply: {code}; 1 marked, 0 other incarnation.
if call('HGET', KEYS[1], 'inc') ~= ARGV[1] then return { 0 } end
call('HSET', KEYS[1], 'first', '1')
return { 1 }
