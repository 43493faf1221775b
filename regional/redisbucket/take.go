package redisbucket

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
)

// call is the reusable memory of one take. The words of the command point into
// it, because a number in an interface would be an allocation each.
type call struct {
	incarnation string
	config      uint64
	keys        []string
	nums        []int64
	args        []any
}

// words fills the command's words for t.
func (c *call) words(s *Store, incarnation string, config uint64, asks []bucket.Ask) {
	c.incarnation, c.config = incarnation, config
	c.keys, c.nums, c.args = c.keys[:0], c.nums[:0], c.args[:0]
	for i := range asks {
		a := &asks[i]
		c.keys = append(c.keys, s.bucketKey(a.Key))
		c.nums = append(c.nums, int64(a.Cost), int64(a.Mode), int64(a.Standing.Rate.Tokens), int64(a.Standing.Rate.Per),
			int64(a.Standing.Burst), int64(a.Standing.Base), int64(a.Standing.Since))
	}
	c.args = append(c.args, "evalsha", &s.scripts.take.sha, len(asks)+1, &s.stateKey)
	for i := range c.keys {
		c.args = append(c.args, &c.keys[i])
	}
	c.args = append(c.args, &c.incarnation, &c.config)
	for i := range c.nums {
		c.args = append(c.args, &c.nums[i])
	}
}

func (s *Store) bucketKey(k quota.Key) string { return s.bucketHead + string(k) + "}" }

// Take asks all buckets of t in one script call.
func (s *Store) Take(ctx context.Context, t enforce.Take) (enforce.TakeResult, error) {
	asks, index := bucket.Merge(t.Asks)
	for i := range asks {
		if err := bucket.ValidAmount(asks[i].Cost); err != nil {
			return enforce.TakeResult{}, fmt.Errorf("take from %q: %w", asks[i].Key, err)
		}
		if err := asks[i].Standing.Valid(); err != nil {
			return enforce.TakeResult{}, fmt.Errorf("take from %q: %w", asks[i].Key, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Budget)
	defer cancel()
	c := s.calls.Get().(*call)
	defer s.calls.Put(c)
	c.words(s, t.Incarnation, t.Config, asks)

	var reply []int64
	err := s.guard(ctx, "take", func(client *redis.Client) error {
		var err error
		reply, err = runInts(ctx, client, &s.scripts.take, c.args)
		return err
	})
	if err != nil {
		return enforce.TakeResult{}, err
	}
	if len(reply) == 1 && reply[0] == 0 {
		return enforce.TakeResult{}, fmt.Errorf("take in regional store: %w", enforce.ErrStale)
	}
	res, ok := verdicts(asks, reply)
	if !ok {
		return res, fmt.Errorf("take in regional store: reply of %d numbers does not fit: %w", len(reply), enforce.ErrStoreDown)
	}
	res.Verdicts = bucket.Spread(res.Verdicts, index)
	return res, nil
}

// verdicts reads the reply of the take script.
func verdicts(asks []bucket.Ask, reply []int64) (res enforce.TakeResult, ok bool) {
	if len(reply) < 3 {
		return res, false
	}
	res = enforce.TakeResult{Now: quota.Micros(reply[1]), Admitted: reply[2] == 1, Verdicts: make([]bucket.Verdict, len(asks))}
	reply = reply[3:]
	for i := range asks {
		if len(reply) < 3 {
			return res, false
		}
		b := bucket.Balance{
			Holding: bucket.Holding(reply[0]), Level: quota.Tokens(reply[1]), Unspent: quota.Micros(reply[2]),
			Capacity: asks[i].Standing.Capacity,
		}
		reply = reply[3:]
		if b.Holding == bucket.OnLease || b.Holding == bucket.OnHold {
			if len(reply) < 4 {
				return res, false
			}
			b.Capacity = quota.Capacity{
				Rate: quota.Rate{Tokens: quota.Tokens(reply[0]), Per: quota.Micros(reply[1])}, Burst: quota.Tokens(reply[2]),
			}
			b.Epoch = quota.Epoch(reply[3])
			reply = reply[4:]
		}
		res.Verdicts[i] = bucket.Judge(asks[i], b, res.Admitted)
	}
	return res, len(reply) == 0
}

// chargeBatch bounds the time one charge script blocks the server.
const chargeBatch = 100

// Charge takes what was admitted while the store was away. After an error the
// charges of the failed script may or may not be in it; charging them again is
// the safe side.
func (s *Store) Charge(ctx context.Context, incarnation string, charges []bucket.Charge) error {
	for len(charges) > 0 {
		n := min(len(charges), chargeBatch)
		keys := []string{s.stateKey}
		argv := []any{incarnation}
		for _, c := range charges[:n] {
			if err := bucket.ValidAmount(c.Tokens); err != nil {
				return fmt.Errorf("charge %q: %w", c.Key, err)
			}
			if err := c.Standing.Valid(); err != nil {
				return fmt.Errorf("charge %q: %w", c.Key, err)
			}
			keys = append(keys, s.bucketKey(c.Key))
			argv = append(argv, int64(c.Tokens), int64(c.Standing.Rate.Tokens), int64(c.Standing.Rate.Per),
				int64(c.Standing.Burst), int64(c.Standing.Base), int64(c.Standing.Since))
		}
		reply, err := s.run(ctx, &s.scripts.charge, keys, argv...)
		if err != nil {
			return err
		}
		if reply[0] != 1 {
			return fmt.Errorf("charge in regional store: %w: %w", enforce.ErrStale, bucket.ErrIncarnation)
		}
		charges = charges[n:]
	}
	return nil
}
