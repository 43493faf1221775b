-- Run on every new connection: continues the incarnation of this data if the
-- server's life and history are the ones it was written in, else begins another.
-- KEYS: state
-- ARGV: id for a new incarnation, run_id, master_replid.
-- Reply: {incarnation, created, the incarnation before}.
local s = call('HMGET', KEYS[1], 'inc', 'run', 'repl', 'session', 'min', 'cfg', 'cfgsince', 'prev', 'prevsince')
if s[1] and s[2] == ARGV[2] and s[3] == ARGV[3] then return { s[1], 0, '' } end
local now = clock()
local ended, least = tonumber(s[4] or 0), tonumber(s[5] or 0)
if ended > 0 then least = math.max(least, ended + 1) end
-- The new life starts on the clock it finds: a mark left by a clock that ran
-- ahead would keep its buckets empty until that time.
call('HSET', KEYS[1], 'inc', ARGV[1], 'known', '0', 'lents', '0', 'session', '0', 'deadline', '0', 'cfg', s[6] or '0', 'hwm', int(now),
  'run', ARGV[2], 'repl', ARGV[3], 'min', int(least), 'since', int(now), 'first', '0',
  'cfgsince', int(math.min(tonumber(s[7] or 0), now)), 'prev', s[8] or '0', 'prevsince', int(math.min(tonumber(s[9] or 0), now)))
return { ARGV[1], 1, s[1] or '' }
