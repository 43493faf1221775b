package faults

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/sim/live"
)

// A window is spent to the last and no further, through the death of the leader and of
// an agent and a region that is cut off: what they held is lost for the window, and
// nothing comes back.
func TestAWindowIsSpentOnce(t *testing.T) {
	t.Parallel()
	const number = 400
	s := open(t, document(fmt.Sprintf("- key: once\n  rate_limit: {unit: year, requests_per_unit: %d, quota: {algorithm: fixed_window, on_store_failure: deny}}\n", number)),
		live.Options{Regions: []live.RegionSpec{{Name: "ap"}, {Name: "eu", Agents: 2}, {Name: "us"}}})
	tr := s.Track(live.Identity{Domain: "shop", Entries: []rules.Entry{{Key: "once", Value: "one"}}},
		quota.Capacity{Rate: quota.Rate{Per: quota.Second}, Burst: quota.Whole(number)})
	loads := s.offer(tr, 30, "ap", "eu", "us")
	admits := func(least int64) {
		t.Helper()
		s.until(fmt.Sprintf("%d admitted", least), patience, func() error {
			if have := tr.Tally().Counts.Admitted; have < quota.Tokens(least)*quota.Token {
				return fmt.Errorf("have %v", have)
			}
			return nil
		})
	}
	admits(100)
	leader := s.leader()
	leader.Kill()
	admits(200)
	s.must("restart the leader", leader.Restart())
	eu := s.Region("eu").Agent(0)
	eu.Kill()
	s.must("restart an agent", eu.Restart())
	// A lease that was on its way, or held by nobody any more, is lost until the end of
	// the year; everything else is spent.
	admits(number * 8 / 10)
	sp := s.watch(3*time.Second, tr)
	stop(loads)
	t.Logf("admitted %v of %d, %v of it in the last 3 s", sp.to.Counts.Admitted, number, sp.to.Counts.Admitted-sp.from.Counts.Admitted)
	s.bound(tr)
	s.agree()
}
