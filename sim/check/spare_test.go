package check

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/coordinator/quota"
)

func TestSpare(t *testing.T) {
	type ask struct {
		at       quota.Micros // in seconds
		cost     uint64
		admitted bool
	}
	for _, tt := range []struct {
		reason string
		asks   []ask
		want   uint64 // of a limit of 1 a second, burst 10
	}{
		{"denied with a full bucket", []ask{{0, 3, false}}, 3},
		{"denied when all is spent", []ask{{0, 10, true}, {0, 1, false}}, 0},
		{"more than there is", []ask{{0, 4, true}, {0, 7, false}}, 0},
		{"ten tokens that were lost count once", []ask{{0, 6, false}, {0, 4, false}, {0, 5, false}, {0, 5, false}}, 10},
		{"and one a second from then on", []ask{{0, 10, false}, {2, 1, false}, {2, 1, false}, {2, 1, false}}, 12},
		{"what is admitted later is not there twice", []ask{{0, 10, false}, {0, 5, true}, {4, 1, false}, {6, 1, false}}, 11},
		{"more than there was, admitted", []ask{{0, 20, true}, {5, 1, false}, {12, 1, false}}, 1},
	} {
		s := NewSpare(quota.Capacity{Rate: quota.Rate{Tokens: quota.Token, Per: quota.Second}, Burst: 10 * quota.Token})
		for _, a := range tt.asks {
			if a.admitted {
				s.Admit(a.at*quota.Second, quota.Whole(a.cost))
			} else {
				s.Deny(a.at*quota.Second, quota.Whole(a.cost))
			}
		}
		if have := s.Denied(); have != quota.Whole(tt.want) {
			t.Errorf("%s: have %v, want %d", tt.reason, have, tt.want)
		}
	}
}

// Who admits what the central bucket admits denied nothing in vain; and nobody can
// have denied more in vain than there was, however many tokens are lost.
func TestNobodyDeniesMoreInVainThanThereWas(t *testing.T) {
	limit := quota.Capacity{Rate: quota.Rate{Tokens: 3 * quota.Token, Per: quota.Second}, Burst: 20 * quota.Token}
	rapid.Check(t, func(t *rapid.T) {
		ideal, perfect, mine, spare := NewIdeal(limit), NewSpare(limit), NewIdeal(limit), NewSpare(limit)
		var now quota.Micros
		for range rapid.IntRange(1, 60).Draw(t, "asks") {
			now += quota.Micros(rapid.IntRange(0, 3_000_000).Draw(t, "wait"))
			cost := quota.Whole(uint64(rapid.IntRange(1, 25).Draw(t, "cost")))
			if ideal.Offer(now, cost) {
				perfect.Admit(now, cost)
			} else {
				perfect.Deny(now, cost)
			}
			if rapid.Bool().Draw(t, "lost") || !mine.Offer(now, cost) {
				spare.Deny(now, cost)
			} else {
				spare.Admit(now, cost)
			}
		}
		if perfect.Denied() != 0 {
			t.Fatalf("the central bucket denied %v in vain", perfect.Denied())
		}
		if have, most := spare.Denied(), limit.Burst+limit.Rate.In(now+quota.Second).Tokens; have > most {
			t.Fatalf("denied %v in vain, and there never were more than %v", have, most)
		}
	})
}
