package agentbench

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/redisbucket"
)

// each is a store whose every take is a script call of its own, as an agent makes
// it with go-redis and nothing else. The script does what a decision needs at the
// least: check the region's state, refill, compare, store.
type each struct {
	*redisbucket.Store
	client *redis.Client
	script *redis.Script
}

var eachScript = redis.NewScript(`#!lua
local st = redis.call('HMGET', KEYS[1], 'inc', 'session', 'deadline', 'cfg', 'hwm')
if st[1] ~= ARGV[1] or st[4] ~= ARGV[2] then return {0} end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local levels, ok = {}, 1
for i = 2, #KEYS do
  local a = 3 + (i - 2) * 4
  local cost, rate, per, burst = ARGV[a] + 0, ARGV[a + 1] + 0, ARGV[a + 2] + 0, ARGV[a + 3] + 0
  local r = redis.call('HMGET', KEYS[i], 'level', 'at')
  local level = burst
  if r[1] then level = math.min(burst, r[1] + math.floor((now - r[2]) * rate / per)) end
  if level < cost then ok = 0 end
  levels[i - 1] = level
end
if ok == 1 then
  for i = 2, #KEYS do
    local level = levels[i - 1] - ARGV[3 + (i - 2) * 4]
    redis.call('HSET', KEYS[i], 'level', string.format('%.0f', level), 'at', string.format('%.0f', now))
    redis.call('PEXPIRE', KEYS[i], 60000)
    levels[i - 1] = level
  end
end
return {1, now, ok, unpack(levels)}`)

func newEach(store *redisbucket.Store, url string) (*each, error) {
	opt, err := redis.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("read redis URL: %w", err)
	}
	opt.Protocol, opt.DisableIdentity = 2, true
	return &each{Store: store, client: redis.NewClient(opt), script: eachScript}, nil
}

func (e *each) Take(ctx context.Context, t enforce.Take) (enforce.TakeResult, error) {
	keys := []string{"quorate:state"}
	args := []any{t.Incarnation, t.Config}
	for i := range t.Asks {
		a := &t.Asks[i]
		keys = append(keys, "each:"+string(a.Key))
		args = append(args, int64(a.Cost), int64(a.Standing.Rate.Tokens), int64(a.Standing.Rate.Per), int64(a.Standing.Burst))
	}
	reply, err := e.script.Run(ctx, e.client, keys, args...).Int64Slice()
	if err != nil {
		return enforce.TakeResult{}, fmt.Errorf("take: %w: %w", enforce.ErrStoreDown, err)
	}
	if len(reply) != 3+len(t.Asks) {
		return enforce.TakeResult{}, fmt.Errorf("take: %w", enforce.ErrStale)
	}
	res := enforce.TakeResult{Now: quota.Micros(reply[1]), Admitted: reply[2] == 1}
	for i := range t.Asks {
		b := bucket.Balance{Holding: bucket.OnStanding, Level: quota.Tokens(reply[3+i]), Capacity: t.Asks[i].Standing.Capacity}
		v := bucket.Judge(&t.Asks[i], b, false)
		v.Admitted = v.Admitted || res.Admitted
		res.Verdicts = append(res.Verdicts, v)
	}
	return res, nil
}

func (e *each) Close() error {
	if err := e.client.Close(); err != nil {
		return fmt.Errorf("close redis client: %w", err)
	}
	return e.Store.Close()
}
