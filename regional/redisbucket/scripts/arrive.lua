-- Goes before incarnate.lua in a cluster. A partition that is begun anew belongs
-- to no incarnation of the region until it is sealed into one.
do
  local was = redis.call('HMGET', KEYS[1], 'run', 'repl')
  if was[1] ~= ARGV[2] or was[2] ~= ARGV[3] then
    redis.call('HSET', KEYS[1], 'node', redis.call('CLUSTER', 'MYID'), 'of', '')
  end
end
