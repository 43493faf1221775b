package buckettest

import (
	"testing"

	"github.com/quorate/quorate/coordinator/quota"
)

// stream is a steady offer to one bucket, one token at a time.
type stream struct {
	name    string
	share   quota.Capacity
	drained bool // the burst is spent before it begins
	every   quota.Micros
	offers  int // every interval
	lasts   quota.Micros
	// min and max bound what may be admitted in each window.
	window   quota.Micros
	min, max int
	// level is what must always be left, in whole tokens.
	level int64
}

var streams = []stream{
	{name: "K01NoJumpToFullOncePerPeriod", share: Per(3, second, 3), every: 100 * ms, offers: 1, lasts: 3 * second, window: 3 * second, min: 11, max: 11},
	// The three at once are gone: from now on one in 333 ms, whenever a second begins.
	{name: "K01OneThirdOfASecondEach", share: Per(3, second, 3), drained: true, every: 100 * ms, offers: 1, lasts: 6 * second, window: second, min: 3, max: 3},
	{name: "K04RoundingDoesNotAccumulate", share: Per(65_535, second, 65_535), every: 100 * ms, offers: 1, lasts: 2 * second, window: 2 * second, min: 20, max: 20, level: 65_515},
	{name: "K06TwoThousandASecond", share: Per(2000, second, 2000), drained: true, every: ms, offers: 3, lasts: 400 * ms, window: 200 * ms, min: 396, max: 404},
	{name: "K06EightThousandASecond", share: Per(8000, second, 8000), drained: true, every: ms, offers: 10, lasts: 200 * ms, window: 100 * ms, min: 792, max: 808},
	{name: "K15HitsOfOneMomentAllCount", share: Per(19, day, 19), every: second, offers: 40, lasts: second, window: second, min: 19, max: 19},
	{name: "K21NoUnderfill", share: Per(1000, second, 1000), drained: true, every: ms, offers: 5, lasts: 2 * second, window: second, min: 990, max: 1000},
	// Asking all the time does not put the refill off.
	{name: "K67RefillsWhileDenying", share: Per(5, 10*second, 5), drained: true, every: second, offers: 1, lasts: minute, window: 10 * second, min: 5, max: 5},
}

func (s *stream) play(t *testing.T, fresh Fresh) {
	take := fresh(t, s.share)
	if s.drained && !take(0, s.share.Burst).Admitted {
		t.Fatal("the bucket was not full")
	}
	admitted, windows := 0, 0
	for at := s.every; at <= s.lasts; at += s.every {
		for range s.offers {
			// A stream that is not drained begins at 0, with the full bucket.
			when := at
			if !s.drained {
				when -= s.every
			}
			v := take(when, quota.Token)
			if v.Admitted {
				admitted++
			}
			if v.Level < quota.Tokens(s.level)*quota.Token {
				t.Fatalf("at %d us: have %v left, want at least %d", when, v.Level, s.level)
			}
		}
		if at%s.window == 0 {
			windows++
			if admitted < s.min || admitted > s.max {
				t.Errorf("window %d: have %d admitted, want %d to %d", windows, admitted, s.min, s.max)
			}
			admitted = 0
		}
	}
	if windows == 0 {
		t.Error("no window was complete")
	}
}
