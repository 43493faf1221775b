package fsm

import (
	"bytes"
	"io"
	"testing"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
)

// What a sliding window still blocks is in a snapshot, also where no rule counts its
// key any more.
func TestASlidingWindowSurvivesASnapshot(t *testing.T) {
	const key = quota.Key("api|user=ada##log+60")
	rule := func(algorithm string) ledger.Op {
		return ledger.SetRules{Sources: []quota.Source{{Name: "api.yaml", Text: "domain: api\ndescriptors:\n  - {key: user, rate_limit: {unit: minute, requests_per_unit: 10, quota: {standing_share: 0, algorithm: " + algorithm + "}}}\n"}}}
	}
	f := New()
	apply(t, f, 1, []ledger.Batch{
		{Term: 2, Ops: []ledger.Op{
			ledger.Found{Cluster: "c-1", Shares: quota.Shares{{Region: "eu", Weight: 1}}},
			rule("sliding_window_log"), ledger.OpenSession{Region: "eu", Incarnation: "i-eu"},
			ledger.Assign{Region: "eu", Session: 1, Key: key, Lease: quota.Capacity{Rate: quota.Rate{Per: 60 * quota.Second}, Burst: quota.Whole(7)}, Credit: quota.Whole(7)},
			ledger.EndSession{Region: "eu", Session: 1},
		}},
		{Term: 2, At: quota.Second, Ops: []ledger.Op{rule("token_bucket")}},
	})
	next := New()
	if err := next.Restore(io.NopCloser(bytes.NewReader(persisted(t, f)))); err != nil {
		t.Fatal(err)
	}
	next.View(func(l *ledger.Ledger) {
		a := l.Account(key)
		if a == nil || len(a.Returns()) != 1 || a.Returns()[0] != (ledger.Return{At: 61_200_000, Tokens: quota.Whole(7)}) || a.Limit().Window != 60*quota.Second {
			t.Errorf("have %+v", a)
		}
	})
}
