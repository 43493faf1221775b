package faults

import (
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/sim/live"
)

var all = []string{"ap", "eu", "us"}

// Two keys share the twenty seconds: one is wanted everywhere, one in a single
// region, each three times as much as its limit allows. The first second, in which
// the first leases are handed out and all buckets begin full, counts as well.
func TestThreeTimesTheLimit(t *testing.T) {
	s := open(t, document(rule("everywhere", perSecond), rule("single", perSecond)), live.Options{})
	everywhere, single := s.audited("everywhere", perSecond), s.audited("single", perSecond)
	s.offer(everywhere, perSecond, all...)
	s.offer(single, 3*perSecond, "eu")
	sp := s.watch(20*time.Second, everywhere)
	s.serves("demand in all regions", sp, 0.9)
	s.serves("demand in one region", span{live.Tally{}, single.Tally()}, 0.9)
	for _, tr := range []*live.Track{everywhere, single} {
		// What the auditor cannot know is when, between question and answer, a
		// request was admitted: at both ends of a window about what is admitted
		// within the slowest answer. More would be a leak.
		r, tally := s.bound(tr), tr.Tally()
		doubt := quota.Tokens(2*float64(tr.Limit.Rate.Tokens)*tally.Worst.Duration().Seconds()) + tr.Limit.Burst/10
		if measured && r.Possible > doubt {
			t.Errorf("%s: possibly %v over the Bound, which slow answers (%v) explain up to %v",
				tr.Identity.Entries[0].Key, r.Possible, tally.Worst.Duration(), doubt)
		}
	}
}
