-- Reads the adopted configuration and the one before it.
-- KEYS: state, config, previous config
-- Reply: {version, since, blob, previous version, its since, its blob}.
local s = call('HMGET', KEYS[1], 'cfg', 'cfgsince', 'prev', 'prevsince')
return { tonumber(s[1] or 0), tonumber(s[2] or 0), call('GET', KEYS[2]) or '',
  tonumber(s[3] or 0), tonumber(s[4] or 0), call('GET', KEYS[3]) or '' }
