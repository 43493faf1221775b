-- Goes before every operation on a partition of a cluster: its state counts only
-- on the node that it was begun on, and in the incarnation of the whole region
-- that the caller knows. That is the last argument, and the operation does not see it.
do
  local here = redis.call('HMGET', KEYS[1], 'node', 'of')
  if here[1] ~= redis.call('CLUSTER', 'MYID') or here[2] ~= table.remove(ARGV) then
    return redis.error_reply('ELSEWHERE the region has moved on from this partition')
  end
end
