//go:build !race

package enforce

import (
	"context"
	"testing"
	"time"

	"github.com/quorate/quorate/regional/demand"
)

// Not under the race detector, where a sync.Pool forgets things on purpose.
func TestADecisionWithAnAllowanceAllocatesNothing(t *testing.T) {
	w := newWorld(t, busyRules, drawing)
	w.second(5000, d("user=a"), d("two=b"))
	w.seen = make([]demand.Observation, 0, 1000)
	req := Request{Domain: "api", Descriptors: []Descriptor{d("user=a"), d("two=b")}}
	var dec Decision
	ctx := context.Background()
	for !dec.FromAllowance {
		if w.now += time.Millisecond; w.takes > 10_000 {
			t.Fatal("nothing is drawn")
		}
		if err := w.e.DecideInto(ctx, w.now, req, &dec); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(5, func() { _ = w.e.DecideInto(ctx, w.now, req, &dec) }); n != 0 || !dec.FromAllowance {
		t.Errorf("%v allocations, from an allowance: %v", n, dec.FromAllowance)
	}
}
