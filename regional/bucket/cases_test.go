package bucket_test

import (
	"testing"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/bucket/buckettest"
)

func TestCases(t *testing.T) {
	const start = 1_700_000_000 * quota.Second
	buckettest.Run(t, func(_ *testing.T, share quota.Capacity) buckettest.Taker {
		s := bucket.NewStore()
		s.Incarnate(start, "one")
		st := bucket.Standing{Capacity: share, Base: share.Burst}
		return func(at quota.Micros, cost quota.Tokens) bucket.Verdict {
			_, v := s.Take(start+at, []bucket.Ask{{Key: "k", Cost: cost, Standing: st}})
			return v[0]
		}
	})
}
