package bucket

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/coordinator/quota"
)

// anyCapacity draws a rate and a burst, either of which may be zero.
func anyCapacity(t *rapid.T) quota.Capacity {
	return quota.Capacity{
		Rate: quota.Rate{
			Tokens: quota.Tokens(rapid.Int64Range(0, 1e10).Draw(t, "rate")),
			Per:    quota.Micros(rapid.Int64Range(1, 1e9).Draw(t, "per")),
		},
		Burst: quota.Tokens(rapid.Int64Range(0, 1e9).Draw(t, "burst")),
	}
}

// event is what was taken at a time, below zero where it was given back.
type event struct {
	at  quota.Micros
	net quota.Tokens
}

// withinBound checks that no interval of a history has more than burst + debt + rate*W.
func withinBound(t *rapid.T, c quota.Capacity, debt quota.Tokens, log []event) {
	for i := range log {
		sum := quota.Tokens(0)
		for _, e := range log[i:] {
			sum += e.net
			window := e.at - log[i].at
			gained, _ := quota.Capacity{Rate: c.Rate, Burst: quota.MaxTokens}.Refill(0, window)
			if most := c.Burst + debt + gained; sum > most {
				t.Fatalf("%d in %d us: the bound of %v with a debt of %d is %d", sum, window, c, debt, most)
			}
		}
	}
}

// TestBoundOfOneBucket checks DESIGN.md's Bound for every interval of a random
// history of one standing share: admitted <= burst + rate*W.
func TestBoundOfOneBucket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyCapacity(t)
		s := region()
		var log []event
		at, real := start, quota.Micros(0) // the clock may be set back, time cannot
		for range rapid.IntRange(1, 60).Draw(t, "takes") {
			step := quota.Micros(rapid.Int64Range(-1000, 100_000).Draw(t, "step"))
			at, real = at+step, real+max(step, 0)
			cost := quota.Tokens(rapid.Int64Range(0, max(1, int64(c.Burst))).Draw(t, "cost"))
			if admitted, _ := s.Take(at, []Ask{{Key: "k", Cost: cost, Standing: full(c)}}); admitted {
				log = append(log, event{real, cost})
			}
			if rapid.IntRange(0, 9).Draw(t, "sweep") == 0 {
				s.Sweep(at)
			}
		}
		withinBound(t, c, 0, log)
	})
}
