package bucket

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/coordinator/quota"
)

// TestBoundOfOneBucket checks DESIGN.md's Bound for every interval of a random
// history of one standing share: admitted <= burst + rate*W.
func TestBoundOfOneBucket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := quota.Capacity{
			Rate: quota.Rate{
				Tokens: quota.Tokens(rapid.Int64Range(0, 1e10).Draw(t, "rate")),
				Per:    quota.Micros(rapid.Int64Range(1, 1e9).Draw(t, "per")),
			},
			Burst: quota.Tokens(rapid.Int64Range(0, 1e9).Draw(t, "burst")),
		}
		s := region()
		type taken struct {
			at   quota.Micros
			cost quota.Tokens
		}
		var log []taken
		at, real := start, quota.Micros(0) // the clock may be set back, time cannot
		for range rapid.IntRange(1, 60).Draw(t, "takes") {
			step := quota.Micros(rapid.Int64Range(-1000, 100_000).Draw(t, "step"))
			at, real = at+step, real+max(step, 0)
			cost := quota.Tokens(rapid.Int64Range(0, max(1, int64(c.Burst))).Draw(t, "cost"))
			if admitted, _ := s.Take(at, []Ask{{Key: "k", Cost: cost, Standing: full(c)}}); admitted {
				log = append(log, taken{real, cost})
			}
			if rapid.IntRange(0, 9).Draw(t, "sweep") == 0 {
				s.Sweep(at)
			}
		}
		for i := range log {
			sum := quota.Tokens(0)
			for _, x := range log[i:] {
				sum += x.cost
				window := x.at - log[i].at
				bound, _ := quota.Capacity{Rate: c.Rate, Burst: quota.MaxTokens}.Refill(0, window)
				if sum > c.Burst+bound {
					t.Fatalf("admitted %d in %d us: the bound of %v is %d", sum, window, c, c.Burst+bound)
				}
			}
		}
	})
}
