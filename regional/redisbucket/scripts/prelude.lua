-- Shared head of every script. All amounts are whole micro-tokens and
-- microseconds below 2^53, so doubles hold them exactly.
local floor, format = math.floor, string.format
local call = redis.call
local MAX = 9007199254740991

-- The only clock. Read once per script: it is not frozen within one.
local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- Writes an integer without exponent or fraction.
local function int(x) return format('%.0f', x) end
