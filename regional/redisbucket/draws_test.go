package redisbucket

import (
	"context"
	"encoding/binary"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/redisbucket/redistest"
)

// ahead asks for cost, and to draw tokens ahead.
func ahead(k quota.Key, cost, tokens uint64, share bucket.Standing) bucket.Ask {
	a := ask(k, cost, share)
	a.Ahead = quota.Whole(tokens)
	return a
}

// Of many requests that share a call one draws for all: as much as any of them asks for,
// and the first one who asks gets it.
func TestOneDrawOfManyGoesToTheFirstWhoAsks(t *testing.T) {
	r := redistest.Run(t)
	s, st, release := held(t, r)
	share := full(per(1000, quota.Second, 1000)) // gains 100 in a slot
	asked := []uint64{0, 2, 8, 0, 5}
	grants := make([][]bucket.Grant, len(asked))
	var wg sync.WaitGroup
	for i, tokens := range asked {
		wg.Go(func() {
			res := take(t, s, of(st, ahead("k", 1, tokens, share), ahead("other", 1, 3*tokens, share)))
			for _, v := range res.Verdicts {
				grants[i] = append(grants[i], v.Grant)
			}
		})
		queued(t, s, i+1)
	}
	release()
	wg.Wait()
	for i := range asked {
		want := [2]quota.Tokens{}
		if i == 1 {
			want = [2]quota.Tokens{quota.Whole(8), quota.Whole(24)}
		}
		for j, g := range grants[i] {
			if g.Tokens != want[j] || (g.Tokens > 0) != (g.Span == bucket.DrawSpan) {
				t.Errorf("request %d, bucket %d: have %+v, want %v", i, j, g, want[j])
			}
		}
	}
	if rec, _, err := s.Read(context.Background(), "k"); err != nil || rec.Drawn != quota.Whole(8) || rec.Level > quota.Whole(1000-5-8) {
		t.Errorf("have %+v, %v", rec, err)
	}
}

// Nothing is ever drawn in a cluster, where a partition's end is not seen in time.
func testNothingIsDrawnInACluster(t *testing.T, c *redistest.Cluster) {
	s := openAt(t, c.URL(), nil)
	st := connected(t, s)
	share := full(per(1000, quota.Second, 1000))
	keys := apart(2)
	for _, asks := range [][]bucket.Ask{{ahead(keys[0], 1, 8, share)}, {ahead(keys[0], 1, 8, share), ahead(keys[1], 1, 8, share)}} {
		for _, v := range take(t, s, of(st, asks...)).Verdicts {
			if !v.Admitted || v.Grant != (bucket.Grant{}) {
				t.Errorf("have %+v", v)
			}
		}
	}
	if rec, ok, err := s.Read(context.Background(), keys[0]); err != nil || !ok || rec.Drawn != 0 {
		t.Errorf("have %+v, %v, %v", rec, ok, err)
	}
}

// FuzzReplies reads replies that no script gives: whatever they say, all who wait are
// told once or nobody is, and nobody gets more than was asked for.
func FuzzReplies(f *testing.F) {
	reply := func(numbers ...int64) (b []byte) {
		for _, n := range numbers {
			b = binary.LittleEndian.AppendUint64(b, uint64(n)) //nolint:gosec // read back as it is written
		}
		return b
	}
	f.Add(reply(1, 100, 2, 5, 0, 1, 1, 3, 50_000))                      // a draw
	f.Add(reply(1, 100, 10, 5, 0, 3, 1, 1, 0, 0))                       // beside drawn tokens
	f.Add(reply(1, 100, 9, 5, 0, 3, 10, 1000, 20, 7, 1, 1, 3, 100_000)) // on a lease
	f.Add(reply(1, 100, 2, 5, 0, 1, 1, 9, 50_000))                      // more than was asked for
	f.Add(reply(1, 100, 2, 5, 0, 1, 1, 3, 100_001))                     // for too long
	f.Add(reply(1, 100, 10, 5, 0, 0, 1, 1, 0, 0))                       // nothing drawn
	f.Add(reply(1, 100, 2, 5, 0, 1, 1, 3))                              // too short
	f.Fuzz(func(t *testing.T, b []byte) {
		var numbers []int64
		for ; len(b) >= 8; b = b[8:] {
			numbers = append(numbers, int64(binary.LittleEndian.Uint64(b))) //nolint:gosec // any number
		}
		share := full(per(10, quota.Second, 10))
		g := &group{asks: []bucket.Ask{ask("k", 1, share)}}
		for _, a := range []bucket.Ask{ask("k", 1, share), {Key: "k", Cost: quota.Token / 2, Ahead: 4, Standing: share}} {
			w := newWaiter().(*waiter)
			w.asks = []bucket.Ask{a}
			g.waiters = append(g.waiters, w)
		}
		g.draws(true)
		ok := (&call{groups: []*group{g}}).answer(numbers)
		for i, w := range g.waiters {
			select {
			case <-w.done:
			default:
				if ok {
					t.Fatalf("waiter %d is not told", i)
				}
				continue
			}
			if !ok {
				t.Fatalf("waiter %d is told of a reply that does not fit", i)
			}
			res, err := w.result(w.asks)
			if err != nil {
				t.Fatal(err)
			}
			g := res.Verdicts[0].Grant
			if g.Tokens < 0 || g.Tokens > w.asks[0].Ahead || g.Span < 0 || g.Span > bucket.DrawSpan {
				t.Fatalf("waiter %d is granted %+v", i, g)
			}
		}
	})
}

// TestDrawsEqualReference is TestScriptsEqualReference for one hot key, of which tokens are
// drawn most of the time, on leases and loans that end or shrink meanwhile.
func TestDrawsEqualReference(t *testing.T) {
	histories(t, func(w *twins) {
		w.length = 1
		st := full(per(100, quota.Second, 100))
		inc := w.ref.State(w.now).Incarnation
		renew := func() {
			deadline := w.now + quota.Micros(rapid.SampledFrom([]int64{60_000, 10_000_000}).Draw(w.t, "deadline"))
			w.same("renew", nil, nil, w.ref.Renew(w.now, inc, 1, deadline), w.real.Renew(w.ctx, inc, 1, deadline))
		}
		renew()
		for range rapid.IntRange(1, 20).Draw(w.t, "steps") {
			w.tick(quota.Micros(rapid.SampledFrom([]int64{0, 0, 1000, 30_000, 60_000, 100_000, -20_000}).Draw(w.t, "time")))
			rec, _ := w.ref.Read("a")
			switch rapid.IntRange(0, 7).Draw(w.t, "op") {
			case 0, 1, 2, 3:
				a := ahead("a", rapid.Uint64Range(0, 10).Draw(w.t, "cost"), rapid.Uint64Range(0, 60).Draw(w.t, "ahead"), st)
				have, err := w.real.Take(w.ctx, of(bucket.State{Region: bucket.Region{Incarnation: inc}}, a))
				var want enforce.TakeResult
				want.Admitted, want.Verdicts = w.ref.Take(w.now, []bucket.Ask{a})
				want.Now = have.Now // the greater of the clock and what State has seen
				w.same("take", want, have, nil, err)
			case 4, 5:
				burst := rapid.Uint64Range(0, 2000).Draw(w.t, "burst")
				if rapid.Bool().Draw(w.t, "small") {
					burst = uint64(rec.Drawn/quota.Token) + rapid.Uint64Range(0, 1).Draw(w.t, "more than drawn")
				}
				a := quota.Assignment{
					Key: "a", Session: 1, Epoch: rec.Epoch + quota.Epoch(rapid.IntRange(0, 1).Draw(w.t, "newer")),
					Lease: per(burst, quota.Second, burst), Credit: quota.Whole(burst), Release: rapid.IntRange(0, 4).Draw(w.t, "release") == 0,
				}
				ask := bucket.ApplyAsk{Assignment: a, Standing: st}
				if !a.Release && rapid.Bool().Draw(w.t, "borrows") {
					more := rapid.Uint64Range(0, 100).Draw(w.t, "loan")
					ask.Assignment.Loan = &quota.Loan{Capacity: per(more, quota.Second, more)}
					ask.LoanUntil = w.now + quota.Micros(rapid.SampledFrom([]int64{40_000, 80_000, 150_000, 10_000_000}).Draw(w.t, "until"))
				}
				w.applied(inc, ask)
			case 6:
				renew()
			case 7:
				w.same("state", w.ref.State(w.now), state(w.t, w.real), nil, nil)
			}
			w.compare()
		}
	})
}
