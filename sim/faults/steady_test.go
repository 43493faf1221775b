package faults

import (
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
	"github.com/quorate/quorate/sim/live"
)

// Renewals are not logged, whatever number of leases they renew: in a steady
// state the log grows by the leader's clock alone.
func TestLogOfASteadyStateDoesNotGrowWithLeases(t *testing.T) {
	t.Parallel()
	text := document(rule("user", 100), rule("api", perSecond))
	set, err := rules.Parse([]quota.Source{{Name: "rules.yaml", Text: text}})
	if err != nil {
		t.Fatal(err)
	}
	// A busy machine shall not elect another leader, which bulk does not follow.
	s := open(t, text, live.Options{Regions: twoRegions(), Raft: raft(4 * election)})
	tr := s.audited("api", perSecond)
	s.offer(tr, perSecond/4, both...)
	b := s.join("bulk")

	const few, many = 10, 10_000
	var entries [2]uint64
	for i, n := range []int{few, many} {
		b.wants(set, "user", n)
		began := time.Now()
		s.hold(b, patience)
		t.Logf("%d leases after %v", n, time.Since(began).Round(100*time.Millisecond))
		from := s.applied()
		changed := s.report(b, 4*time.Second)
		entries[i] = s.applied() - from
		t.Logf("%d leases: %d log entries in 4 s, %d assignments", n, entries[i], changed)
		if have := s.leases("bulk"); have < int64(n) {
			t.Errorf("the coordinator knows %d leases of the region, want %d", have, n)
		}
	}
	// Half a dozen entries are the chance of two real regions' changing demand.
	if entries[1] > 2*entries[0]+6 {
		t.Errorf("%d log entries with %d leases, %d with %d", entries[1], many, entries[0], few)
	}
	s.agree()
	s.bound(tr)
}

// applied is the leader's applied index.
func (s *scene) applied() uint64 {
	s.t.Helper()
	status, err := s.leader().Status(s.t.Context())
	s.must("ask the leader", err)
	return status.GetAppliedIndex()
}

// leases is how many a region holds, as the leader counts them.
func (s *scene) leases(region string) int64 {
	s.t.Helper()
	answer, err := s.leader().Admin().ListRegions(s.t.Context(), &quoratev1.ListRegionsRequest{})
	s.must("list regions", err)
	for _, r := range answer.GetRegions() {
		if r.GetName() == region {
			return r.GetLeases()
		}
	}
	return 0
}
