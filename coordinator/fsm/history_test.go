package fsm

import (
	"testing"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
)

const document = `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 1000}
  - key: login
    rate_limit:
      unit: minute
      requests_per_unit: 5
`

func capacity(rate, burst uint64) quota.Capacity {
	return quota.Capacity{Rate: quota.Rate{Tokens: quota.Whole(rate), Per: 60 * quota.Second}, Burst: quota.Whole(burst)}
}

// history is a life of a small cluster: founding, sessions, leases in all
// states, an edit and a second term.
func history() []ledger.Batch {
	const ada, bob = quota.Key("api|user=ada"), quota.Key("api|user=bob")
	return []ledger.Batch{
		{Term: 2, At: 0, Ops: []ledger.Op{
			ledger.Found{Cluster: "c-1", Shares: quota.Shares{{Region: "eu", Weight: 1}, {Region: "us", Weight: 1}}},
			ledger.Lead{Node: "n1", Address: "n1:7600"},
			ledger.SetRules{Sources: []quota.Source{{Name: "api.yaml", Text: document}}},
		}},
		{Term: 2, At: quota.Second, Ops: []ledger.Op{
			ledger.OpenSession{Region: "eu", Incarnation: "i-eu"},
			ledger.OpenSession{Region: "us", Incarnation: "i-us"},
		}},
		{Term: 2, At: 2 * quota.Second, Ops: []ledger.Op{
			ledger.Offer{Region: "eu", Version: 3}, ledger.Offer{Region: "us", Version: 3},
			ledger.Adopted{Region: "eu", Version: 3}, ledger.Adopted{Region: "us", Version: 3},
		}},
		{Term: 2, At: 3 * quota.Second, Ops: []ledger.Op{
			ledger.Assign{Region: "eu", Session: 1, Key: ada, Lease: capacity(500, 500), Credit: quota.Whole(100)},
			ledger.Assign{Region: "us", Session: 2, Key: ada, Lease: capacity(300, 200), Credit: quota.Whole(50)},
			ledger.Assign{Region: "us", Session: 2, Key: bob, Lease: capacity(60, 60)},
		}},
		{Term: 2, At: 4 * quota.Second, Ops: []ledger.Op{
			ledger.Confirm{Region: "eu", Session: 1, Key: ada, Epoch: 1},
			ledger.Assign{Region: "eu", Session: 1, Key: ada, Prev: 1, Lease: capacity(100, 100)},
			ledger.MarkSilent{Region: "us", Session: 2, Silent: true},
		}},
		{Term: 3, At: 0, Ops: []ledger.Op{
			ledger.Lead{Node: "n2", Address: "n2:7600"},
			ledger.AddRegion{Region: "ap", Weight: 2},
			ledger.SetRules{Sources: []quota.Source{{Name: "api.yaml", Text: "domain: api\ndescriptors:\n  - key: login\n    rate_limit: {unit: minute, requests_per_unit: 3}\n"}}},
		}},
		{Term: 3, At: quota.Second, Ops: []ledger.Op{
			ledger.OpenSession{Region: "ap", Incarnation: "i-ap"},
			ledger.EndSession{Region: "us", Session: 2},
			ledger.Drop{Key: bob},
			ledger.DrainRegion{Region: "us"},
		}},
		{Term: 2, At: 9 * quota.Second, Ops: []ledger.Op{ledger.Drop{Key: ada}}}, // of a deposed leader
		{Term: 3, At: 2 * quota.Second, Ops: nil},
	}
}

// apply applies entries from index first on, and wants each to be new.
func apply(t *testing.T, f *FSM, first uint64, batches []ledger.Batch) {
	t.Helper()
	for i, b := range batches {
		data, err := Encode(b)
		if err != nil {
			t.Fatal(err)
		}
		res := f.Apply(&raft.Log{Index: first + uint64(i), Term: b.Term, Data: data}).(ledger.Result)
		if res.Index != first+uint64(i) {
			t.Fatalf("result of entry %d: have index %d", first+uint64(i), res.Index)
		}
	}
}

// The history must do something in every step, or the tests on it test nothing.
func TestHistoryIsApplied(t *testing.T) {
	f := New()
	apply(t, f, 5, history())
	f.View(func(l *ledger.Ledger) {
		if l.Cluster() != "c-1" || len(l.Regions()) != 3 || l.Len() == 0 || l.Clock() == 0 {
			t.Errorf("have cluster %q, %d regions, %d accounts, clock %d", l.Cluster(), len(l.Regions()), l.Len(), l.Clock())
		}
		h, ok := l.Account("api|user=ada").Holding("eu")
		if !ok || !h.Leased || h.Flight == nil {
			t.Errorf("eu holds %+v, want a lease with an assignment in flight", h)
		}
	})
}
