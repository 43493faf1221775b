package ledger

import (
	"fmt"
	"testing"

	"github.com/quorate/quorate/coordinator/quota"
)

// A share that grows while a credit is in flight can be full when the credit
// arrives: both count until the assignment is confirmed.
func TestAGrowingShareLeavesRoomForACreditInFlight(t *testing.T) {
	doc := func(share float64) []quota.Source {
		return []quota.Source{{Name: "a.yaml", Text: fmt.Sprintf(`domain: api
descriptors:
  - key: user
    rate_limit: {requests_per_unit: 20, unit: second, quota: {burst: 40, standing_share: %g}}
`, share)}}
	}
	l, index := New(), uint64(0)
	do := func(op Op) error {
		index++
		return l.Apply(index, Batch{Term: 1, At: quota.Micros(index), Ops: []Op{op}}).Err(0)
	}
	must := func(op Op) {
		t.Helper()
		if err := do(op); err != nil {
			t.Fatalf("%T: %v", op, err)
		}
	}
	must(Found{Cluster: "c", Shares: quota.Shares{{Region: "eu", Weight: 1}, {Region: "us", Weight: 1}}})
	must(SetRules{Sources: doc(0.3)})
	for _, r := range []string{"eu", "us"} {
		must(OpenSession{Region: r, Incarnation: r + "/1"})
		must(Offer{Region: r, Version: l.Current().Version})
		must(Adopted{Region: r, Version: l.Current().Version})
	}
	key := l.Current().Rules().Rules()[0].Sample(0)
	lease := func(burst uint64) quota.Capacity {
		return quota.Capacity{Rate: quota.Rate{Tokens: quota.Whole(10), Per: quota.Second}, Burst: quota.Whole(burst)}
	}
	must(Assign{Region: "eu", Session: 1, Key: key, Lease: lease(20), Credit: quota.Whole(14)}) // share 6, growth 14
	must(SetRules{Sources: doc(0.8)})                                                           // shares of 16
	must(Offer{Region: "eu", Version: l.Current().Version})
	a := l.Account(key)
	// eu's bucket may hold 16 by now, and 14 are on their way.
	if have, want := a.Reserved("eu").Burst, quota.Whole(30); have < want {
		t.Errorf("reserved for eu: have %v, want at least %v", have, want)
	}
	sum := a.Reserved("us").Burst + a.Level(l.Clock()) + quota.Whole(16+14)
	if pool := max(a.Pool().Burst, 0); a.Level(l.Clock()) > pool {
		t.Errorf("level %v above the pool %v", a.Level(l.Clock()), pool)
	}
	if sum > a.Limit().Burst {
		t.Errorf("spendable at once: have %v, want at most %v", sum, a.Limit().Burst)
	}
}
