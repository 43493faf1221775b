package redisbucket

import (
	"testing"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/redisbucket/redistest"
)

// back asks to give n tokens back.
func back(k quota.Key, n uint64, share bucket.Standing) bucket.Ask {
	a := ask(k, 0, share)
	a.Cost = -quota.Whole(n)
	return a
}

// Keys of one request that are on several nodes are given back and charged all or none.
func testNegativeHits(t *testing.T, c *redistest.Cluster) {
	s := openAt(t, c.URL(), nil)
	st := connected(t, s)
	share := full(per(0, day, 10))
	keys := apart(51)
	empty, rest := keys[0], keys[1:]
	take(t, s, of(st, ask(empty, 10, share)))
	var asks []bucket.Ask
	for i, k := range rest {
		take(t, s, of(st, ask(k, 8, share)))
		if asks = append(asks, back(k, 3, share)); i%2 == 1 {
			asks[i] = ask(k, 2, share)
		}
	}
	level := func(k quota.Key) quota.Tokens {
		t.Helper()
		return take(t, s, of(st, ask(k, 0, share))).Verdicts[0].Level
	}
	// The bucket that denies comes last, after all that would be given back.
	res := take(t, s, of(st, append(asks[:50:50], ask(empty, 1, share))...))
	if res.Admitted || res.Verdicts[50].Admitted || !res.Verdicts[0].Admitted {
		t.Fatalf("have %+v", res)
	}
	for i, k := range rest {
		if v := res.Verdicts[i]; v.Level != quota.Whole(2) || level(k) != quota.Whole(2) {
			t.Errorf("%s of a denied request: told %v, has %v, want 2", k, v.Level, level(k))
		}
	}
	if res := take(t, s, of(st, append(asks[:50:50], back(empty, 1, share))...)); !res.Admitted || res.Verdicts[50].Level != quota.Token {
		t.Fatalf("have %+v", res)
	}
	for i, k := range rest {
		want := quota.Whole(5)
		if i%2 == 1 {
			want = 0
		}
		if have := level(k); have != want {
			t.Errorf("%s: have %v, want %v", k, have, want)
		}
	}
	// What is settled is charged as far as it goes, on all nodes.
	for i := range asks {
		asks[i] = bucket.Ask{Key: rest[i], Cost: quota.Whole(7), Debt: quota.Token, Settle: true, Standing: share}
	}
	for i, v := range take(t, s, of(st, asks...)).Verdicts {
		want := quota.Whole(1)
		if i%2 == 1 {
			want = quota.Whole(6)
		}
		if !v.Admitted || v.Level != -quota.Token || v.Uncharged != want {
			t.Errorf("settling %s: have %+v, want %v uncharged", rest[i], v, want)
		}
	}
}

// Whoever settles or has a debt of another depth is served in its turn, but not by one
// look with the others.
func TestAsksOfDifferentTermsShareNoGroup(t *testing.T) {
	share := full(per(10, day, 10))
	plain := ask("k", 1, share)
	owes, settles, refunds := plain, plain, plain
	owes.Debt, settles.Settle, refunds.Cost = 1, true, -1
	for _, tc := range []struct {
		reason string
		with   bucket.Ask
		want   bool
	}{{"the same", plain, true}, {"a debt", owes, false}, {"to settle", settles, false}, {"another cost", refunds, true}} {
		g := group{asks: []bucket.Ask{plain}}
		if have := g.fits("", 0, []bucket.Ask{tc.with}); have != tc.want {
			t.Errorf("%s: have %v", tc.reason, have)
		}
	}
}
