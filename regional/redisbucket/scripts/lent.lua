-- Reads which standing shares are on loan, and forgets those that are back.
-- KEYS: state, lent shares
-- Reply: {of each: key, until}.
local now = math.max(clock(), (call('HGET', KEYS[1], 'hwm') or 0) + 0)
local reply = {}
local lent = call('HGETALL', KEYS[2])
for i = 1, #lent, 2 do
  if lent[i + 1] + 0 <= now then
    call('HDEL', KEYS[2], lent[i])
  else
    reply[#reply + 1], reply[#reply + 2] = lent[i], lent[i + 1] + 0
  end
end
return reply
