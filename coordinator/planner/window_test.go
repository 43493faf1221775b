package planner

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
)

// inWindows writes a rule document with one rule for every user, in windows.
func inWindows(requests int, unit, share string) []quota.Source {
	return []quota.Source{{Name: "shop.yaml", Text: fmt.Sprintf(`domain: shop
descriptors:
  - key: user
    rate_limit:
      unit: %s
      requests_per_unit: %d
      quota:
        algorithm: fixed_window
        standing_share: %s
`, unit, requests, share)}}
}

const (
	today   = quota.Key("shop|user=alice##0+86400")
	minutes = quota.Key("shop|user=alice##0+60")
)

// whole asserts that no window admitted more than it has, and no operation but the
// first of an account was refused.
func (w *world) whole(t *testing.T) {
	t.Helper()
	for k, c := range w.central {
		if c.worst < 0 {
			t.Errorf("%s admitted %v more than it has", k, -c.worst)
		}
	}
	if len(w.refusals) > 0 {
		t.Errorf("%d operations were refused, the first: %s", len(w.refusals), w.refusals[0])
	}
}

// Five a day over five regions are five, wherever they are asked for.
func TestFewOfAWindowAreSpentToTheLast(t *testing.T) {
	names := []string{"ap", "eu", "jp", "sa", "us"}
	for seed := range uint64(8) {
		w := newWorld(seed+1, inWindows(5, "day", "0.1"), names...)
		draw := rand.New(rand.NewPCG(seed, 0))
		for _, r := range w.regions {
			busy := draw.Float64() < 0.6
			rate := draw.Float64() * 3
			r.demand[today] = func(float64) float64 {
				if busy {
					return rate
				}
				return 0
			}
		}
		w.regions[seed%5].demand[today] = steady(1)
		w.run(40 * quota.Second)
		w.whole(t)
		if have := w.central[today].admitted; have != 5*quota.Token {
			t.Errorf("seed %d: have %v admitted, want 5", seed, have)
		}
	}
}

// What one region took in and does not use, another one gets.
func TestTokensOfAWindowFollowTheDemand(t *testing.T) {
	w := newWorld(1, inWindows(1000, "day", "0.03"), "ap", "eu", "us")
	w.run(8 * quota.Second)
	w.region("ap").demand[today] = stepAt(14, 60, 0)
	w.region("us").demand[today] = stepAt(18, 0, 100)
	w.run(40 * quota.Second)
	w.whole(t)
	// eu and ap keep what they own of it: a share of 10 each.
	if have := w.central[today].admitted; have < 980*quota.Token {
		t.Errorf("have %v admitted of 1000", have)
	}
}

// The same with all regions busy, in parts that differ: the limit is spent as fast as
// one central counter would.
func TestABusyWindowIsSpentInTime(t *testing.T) {
	w := newWorld(7, inWindows(3000, "minute", "0.1"), "ap", "eu", "us")
	w.run(8 * quota.Second)
	w.region("ap").demand[minutes] = steady(80)
	w.region("eu").demand[minutes] = steady(15)
	w.region("us").demand[minutes] = steady(5)
	w.run(25 * quota.Second)
	c := w.central[minutes]
	if have := c.efficiency(); have < 99 {
		t.Errorf("while it lasts %.1f %% of what one counter admits is admitted", have)
	}
	w.run(35 * quota.Second)
	w.whole(t)
	if c.admitted < 2999*quota.Token {
		t.Errorf("have %v admitted of 3000", c.admitted)
	}
	if w.entries > 200 || w.ops["Assign"] > 80 {
		t.Errorf("a minute took %d entries with %v", w.entries, w.ops)
	}
}

// A region that is lost takes what it has of the window with it: of a large one that is
// what it asks for in about a minute, not a part of the whole.
func TestARegionStocksAMinuteOfAWindow(t *testing.T) {
	w := newWorld(5, inWindows(1_000_000, "day", "0"), "ap", "eu", "us")
	for _, r := range w.regions {
		r.demand[today] = steady(100)
	}
	for range 12 {
		w.run(10 * quota.Second)
		a := w.l.Account(today)
		left := a.Level(w.l.Clock()) + w.central[today].admitted
		if out := 1_000_000*quota.Token - left; out > 3*100*65*quota.Token {
			t.Fatalf("%v of a million is with three regions that ask for 100/s each", out)
		}
	}
	w.whole(t)
	if have := w.central[today].efficiency(); have < 99 {
		t.Errorf("%.1f %% of what one counter admits is admitted", have)
	}
	if w.ops["Assign"] > 40 {
		t.Errorf("two minutes took %v", w.ops)
	}
}

// One request may need more than a fair part.
func TestLargeRequestsOfAWindowTakeTurns(t *testing.T) {
	w := newWorld(3, inWindows(100, "day", "0"), "ap", "eu", "us")
	for _, r := range w.regions {
		r.demand[today], r.cost[today] = steady(2), 30*quota.Token
	}
	w.run(30 * quota.Second)
	w.whole(t)
	if have := w.central[today].admitted; have != 90*quota.Token {
		t.Errorf("have %v admitted in requests of 30, want 90", have)
	}
}

// When a window is over nobody asks for its key: the leases are released within one
// and a half minutes, and the account is dropped when nobody can be in it.
func TestAWindowThatIsOverIsForgotten(t *testing.T) {
	w := newWorld(1, inWindows(1000, "minute", "0.1"), "ap", "eu", "us")
	for _, r := range w.regions {
		r.demand[minutes] = stepAt(20, 100, 0)
	}
	w.run(20 * quota.Second)
	if len(w.l.Account(minutes).Holdings()) == 0 {
		t.Fatal("nobody had a lease")
	}
	w.run(rest + scatter + 5*quota.Second)
	if have := w.l.Account(minutes).Holdings(); len(have) > 0 {
		t.Errorf("still held: %+v", have)
	}
	entries := w.ops["Assign"]
	w.run(580 * quota.Second)
	if w.l.Account(minutes) == nil {
		t.Error("the account was dropped while an agent that is behind may be in it")
	}
	w.run(180 * quota.Second)
	if w.l.Account(minutes) != nil || len(w.term.book.entries) > 0 {
		t.Errorf("the account is still there, with %v left", w.l.Account(minutes).Left(w.l.Clock()).Duration())
	}
	if w.ops["Assign"] != entries {
		t.Errorf("%d assignments for a window that is over", w.ops["Assign"]-entries)
	}
	w.whole(t)
}

// A lowered limit, and shares of a newer configuration, find room although a window's
// leases never come back by themselves.
func TestSpentLeasesOfAWindowMakeRoom(t *testing.T) {
	w := newWorld(1, inWindows(300, "day", "0.1"), "ap", "eu", "us")
	for _, r := range w.regions {
		r.demand[today] = steady(20)
	}
	w.run(30 * quota.Second)
	w.apply(ledger.SetRules{Sources: inWindows(300, "day", "0.9")})
	w.run(20 * quota.Second)
	for _, r := range w.l.Regions() {
		if r.Confirmed != w.l.Current().Version {
			t.Errorf("%s has not adopted the larger shares", r.Name)
		}
	}
	w.apply(ledger.SetRules{Sources: inWindows(100, "day", "0.9")})
	w.run(20 * quota.Second)
	if pool := w.l.Account(today).Pool(); pool.Burst < 0 {
		t.Errorf("the lowered limit is not in force: the pool has %v", pool)
	}
	w.whole(t)
}

// All busy keys of a new window want their first leases at once. A leader gives them in
// some rounds and is done.
func TestAWindowThatBeginsWithManyKeys(t *testing.T) {
	d := newDesk(t, inWindows(100, "minute", "0"), "ap", "eu", "us")
	for _, r := range []string{"ap", "eu", "us"} {
		d.sync(r)
	}
	d.wait(time.Second)
	keys := make([]quota.Usage, 10_000)
	for i := range keys {
		keys[i] = quota.Usage{
			Key: quota.Key(fmt.Sprintf("shop|user=%d##0+60", i)), Window: 5 * time.Millisecond,
			Denied: quota.Token, Largest: quota.Token,
		}
	}
	for _, r := range []string{"ap", "eu", "us"} {
		d.sync(r, uses(keys...))
	}
	assigned, rounds := 0, 0
	for rounds < 50 {
		ops, _, propose := d.term.Next(d.at(), d.l)
		if !propose {
			break
		}
		if len(ops) > d.term.cfg.MaxOps+10 {
			t.Fatalf("a round of %d operations", len(ops))
		}
		d.term.Done(d.at(), d.l, ops, d.commit(ops...))
		assigned, rounds = assigned+count[ledger.Assign](ops), rounds+1
	}
	if assigned != 30_000 || rounds > 9 {
		t.Errorf("have %d assignments in %d rounds, want one for each region and key in 8 or 9", assigned, rounds)
	}
}

// What a region has is what it last reported, and what it was given since.
func TestWhatASeatHas(t *testing.T) {
	const tok = quota.Token
	lease := func(n quota.Tokens) quota.Capacity { return quota.Capacity{Burst: n * tok} }
	for _, tt := range []struct {
		reason        string
		seat          seat
		d             *demand
		with, without int64
	}{
		{"nobody has reported its share", seat{share: lease(10)}, nil, 10, 10},
		{"it has spent of its share", seat{share: lease(10)}, &demand{seen: 1, level: 4 * tok, burst: 10 * tok}, 4, 4},
		{"a debt is nothing", seat{share: lease(10)}, &demand{seen: 1, level: -4 * tok, burst: 10 * tok}, 0, 0},
		{"its lease is full for all that is known", seat{held: true, holding: ledger.Holding{Leased: true, Lease: lease(30), Epoch: 7}}, nil, 30, 30},
		{"it reported before the lease", seat{held: true, holding: ledger.Holding{Leased: true, Lease: lease(30), Epoch: 7}}, &demand{seen: 1, level: 4 * tok, burst: 10 * tok, epoch: 6}, 24, 24},
		{"and since", seat{held: true, holding: ledger.Holding{Leased: true, Lease: lease(30), Epoch: 7}}, &demand{seen: 1, level: 9 * tok, burst: 30 * tok, epoch: 7}, 9, 9},
		{"more is on its way", seat{held: true, holding: ledger.Holding{Leased: true, Lease: lease(30), Epoch: 8, Flight: &ledger.Flight{Lease: lease(50), Credit: 20 * tok}}}, &demand{seen: 1, level: 9 * tok, burst: 30 * tok, epoch: 7}, 29, 9},
		{"and has arrived", seat{held: true, holding: ledger.Holding{Leased: true, Lease: lease(30), Epoch: 8, Flight: &ledger.Flight{Lease: lease(50), Credit: 20 * tok}}}, &demand{seen: 1, level: 28 * tok, burst: 50 * tok, epoch: 8}, 28, 28},
		{"it gives back all but five", seat{held: true, holding: ledger.Holding{Leased: true, Lease: lease(30), Epoch: 8, Flight: &ledger.Flight{Lease: lease(5)}}}, &demand{seen: 1, level: 9 * tok, burst: 30 * tok, epoch: 7}, 5, 9},
		{"or all but its share", seat{share: lease(3), held: true, holding: ledger.Holding{Leased: true, Lease: lease(30), Epoch: 8, Flight: &ledger.Flight{Lease: lease(3), Release: true}}}, &demand{seen: 1, level: 9 * tok, burst: 30 * tok, epoch: 7}, 3, 9},
	} {
		if with, without := tt.seat.has(tt.d); with != tt.with || without != tt.without {
			t.Errorf("%s: have %d, and %d without what is in flight; want %d and %d", tt.reason, with, without, tt.with, tt.without)
		}
	}
}
