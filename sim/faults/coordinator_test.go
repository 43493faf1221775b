package faults

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/sim/live"
)

// others are the coordinators except one.
func (s *scene) others(c *live.Coordinator) (rest []*live.Coordinator) {
	for _, o := range s.Coordinators() {
		if o != c {
			rest = append(rest, o)
		}
	}
	return rest
}

// agree waits until all coordinators have applied the same entries, and fails
// the test when that left them in different states.
func (s *scene) agree() {
	s.t.Helper()
	s.until("all coordinators agree", patience, func() error {
		var name, hash string
		var index uint64
		for _, c := range s.Coordinators() {
			ctx, cancel := context.WithTimeout(s.t.Context(), time.Second)
			st, err := c.Status(ctx)
			cancel()
			switch {
			case err != nil:
				return err
			case name == "":
				name, index, hash = c.Name, st.GetAppliedIndex(), st.GetStateHash()
			case st.GetAppliedIndex() != index:
				return fmt.Errorf("%s has applied %d, %s %d", name, index, c.Name, st.GetAppliedIndex())
			case st.GetStateHash() != hash:
				s.t.Fatalf("%s and %s differ at index %d", name, c.Name, index)
			}
		}
		return nil
	})
}

func TestCoordinatorsKilled(t *testing.T) {
	t.Parallel()
	s := open(t, document(rule("api", perSecond, "standing_share: 0.2")), live.Options{})
	tr := s.audited("api", perSecond)
	const share = perSecond / 5 / 3 // what each region owns for ever
	s.offer(tr, perSecond, all...)
	s.recovers("start", tr, patience, all...)

	leader := s.leader()
	follower := s.others(leader)[0]
	follower.Kill()
	s.serves("follower killed", s.watch(3*time.Second, tr), 0.9)
	if measured && s.leader() != leader {
		t.Error("the leader changed when a follower was killed")
	}
	s.must("restart the follower", follower.Restart())
	s.recovers("follower is back", tr, 5*time.Second, all...)
	s.agree()

	leader.Kill()
	took := s.until("another leader", 10*time.Second, func() error {
		_, err := s.Leader(t.Context())
		return err
	})
	t.Logf("another leader after %v", took.Round(time.Millisecond))
	s.recovers("leader killed", tr, 10*time.Second, all...)
	s.must("restart the old leader", leader.Restart())
	s.recovers("old leader is back", tr, 5*time.Second, all...)
	s.agree()

	leader = s.leader()
	gone := []*live.Coordinator{leader, s.others(leader)[0]}
	for _, c := range gone {
		c.Kill()
	}
	s.forgotten("without a majority", all...)
	s.onShare("without a majority", tr, share, 3*time.Second, all...)
	for _, c := range gone {
		s.must("restart "+c.Name, c.Restart())
	}
	s.recovers("majority is back", tr, 15*time.Second, all...)
	s.agree()
	s.bound(tr)
}
