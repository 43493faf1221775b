package planner

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
)

// One busy region gets nearly everything in one or two assignments.
func TestFirstComeIsServedGenerously(t *testing.T) {
	for _, tt := range []struct {
		reason string
		rules  []quota.Source
		u      quota.Usage
		least  int64
	}{
		{"by the second", document(1000, "second", 1000, "0.03"), greedy(shop), 950},
		{"by the hour", document(1000, "hour", 1000, "0.03"), greedy(shop), 950},
		{"tiny, nobody has a share", document(5, "minute", 5, "0.1"),
			quota.Usage{Key: shop, Window: time.Second, Denied: quota.Token, Largest: quota.Token}, 5},
		{"low, nothing denied yet", document(1000, "second", 1000, "0.03"),
			quota.Usage{Key: shop, Window: 20 * time.Millisecond, Admitted: 6 * quota.Token, Largest: quota.Token, Level: 4 * quota.Token, Burst: 10 * quota.Token}, 950},
	} {
		d := newDesk(t, tt.rules, "ap", "eu", "us")
		d.sync("eu", uses(tt.u))
		d.round()
		if n := d.l.Account(shop).Reserved("eu").Burst.Floor(); n < tt.least {
			t.Errorf("%s: the first assignment is %d, want at least %d", tt.reason, n, tt.least)
		}
		h, _ := d.l.Account(shop).Holding("eu")
		if growth := d.l.Account(shop).Reserved("eu").Burst - d.l.Account(shop).Share("eu").Burst; h.Flight.Credit != growth {
			t.Errorf("%s: credit %v for a growth of %v from a full pool", tt.reason, h.Flight.Credit, growth)
		}
	}
}

// A key that gets along with its standing share costs nothing.
func TestColdKeysCostNothing(t *testing.T) {
	d := newDesk(t, thousand, "ap", "eu", "us")
	for i := range 1000 {
		d.sync("eu", uses(quota.Usage{Key: quota.Key(fmt.Sprintf("shop|user=%d", i)), Window: time.Second, Admitted: 3 * quota.Token, Largest: quota.Token, Level: 30 * quota.Token, Burst: 33 * quota.Token}))
	}
	d.sync("eu", uses(quota.Usage{Key: "elsewhere|user=1", Denied: quota.Token}))
	d.round()
	if len(d.ops) != 0 || d.l.Len() != 0 || d.term.Keys() != 0 {
		t.Errorf("have %d operations, %d accounts, %d keys in the book", len(d.ops), d.l.Len(), d.term.Keys())
	}
}

// 10,000 steady leases, of 5,000 keys in two regions, cost ticks and nothing else.
func TestSteadyStateCostsNoLogEntry(t *testing.T) {
	d := newDesk(t, thousand, "ap", "eu", "us")
	const n = 5_000
	keys := make([]quota.Key, n)
	for i := range keys {
		keys[i] = quota.Key(fmt.Sprintf("shop|user=%d", i))
	}
	report := func(denied, level quota.Tokens) {
		for _, r := range []string{"eu", "us"} {
			usage := make([]quota.Usage, n)
			for i, k := range keys {
				usage[i] = quota.Usage{Key: k, Window: 200 * time.Millisecond, Admitted: 60 * quota.Token, Denied: denied, Largest: quota.Token, Level: level, Burst: 490 * quota.Token}
				if a := d.l.Account(k); a != nil {
					h, _ := a.Holding(r)
					usage[i].Epoch, usage[i].Burst = h.Epoch, h.Lease.Burst
				}
			}
			resp := d.sync(r, uses(usage...))
			d.sync(r, applies(resp.Assignments))
		}
		d.sync("ap")
		for range 20 {
			d.round()
		}
		d.now += 200_000
	}
	for range 20 {
		report(100*quota.Token, 0)
	}
	if d.l.Len() != n {
		t.Fatalf("have %d accounts, want %d", d.l.Len(), n)
	}
	for range 20 { // until what the first reports said has faded
		report(0, 400*quota.Token)
	}
	d.ops, d.ticks = nil, 0
	for range 50 {
		report(0, 400*quota.Token)
	}
	if len(d.ops) != 0 || d.ticks < 9 || d.ticks > 11 {
		t.Errorf("in 10 s have %d operations and %d ticks, want 0 and 10; first %+v", len(d.ops), d.ticks, d.ops[:min(3, len(d.ops))])
	}
}

// K76: an unknown outcome is read from the ledger, not guessed.
func TestK76UnknownOutcome(t *testing.T) {
	for _, applied := range []bool{true, false} {
		d := newDesk(t, thousand, "ap", "eu", "us")
		d.sync("eu", uses(greedy(shop)))
		ops, _, _ := d.term.Next(d.at(), d.l)
		if count[ledger.Assign](ops) != 1 {
			t.Fatalf("have %v", ops)
		}
		if again, _, propose := d.term.Next(d.at(), d.l); propose {
			t.Fatalf("proposed while the outcome is open: %v", again)
		}
		if applied {
			d.commit(ops...)
		}
		d.term.Done(d.at(), d.l, ops, nil)
		d.round() // refusals would fail the test
		want := 1
		if applied {
			want = 0
		}
		if n := count[ledger.Assign](d.ops); n != want {
			t.Errorf("applied %v: proposed %d more assignments, want %d", applied, n, want)
		}
		if p := d.term.Push(d.at(), d.l); len(p) != 1 || len(p[0].Assignments) != 1 {
			t.Errorf("applied %v: pushed %+v", applied, p)
		}
	}
}

// K75: what the ledger refuses is not proposed in a tight loop.
func TestK75RefusalBacksOff(t *testing.T) {
	d := newDesk(t, thousand, "ap", "eu", "us")
	d.sync("eu", uses(greedy(shop)))
	rounds := 0
	for end := d.now + quota.Second/2; d.now < end; d.now += 1000 {
		ops, _, propose := d.term.Next(d.at(), d.l)
		if !propose {
			continue
		}
		rounds++
		errs := make([]error, len(ops))
		for i := range errs {
			errs[i] = ledger.ErrNoRoom
		}
		d.term.Done(d.at(), d.l, ops, errs)
	}
	if rounds > 12 {
		t.Errorf("%d proposals in half a second", rounds)
	}
}

// A new account whose pool is not full yet is opened without credit.
func TestOpeningWithoutCredit(t *testing.T) {
	d := newDesk(t, thousand, "ap", "eu", "us")
	d.sync("eu", uses(greedy(shop)))
	ops, _, _ := d.term.Next(d.at(), d.l)
	d.term.Done(d.at(), d.l, ops, []error{ledger.ErrCredit})
	d.wait(100 * time.Millisecond)
	h, ok := d.l.Account(shop).Holding("eu")
	if !ok || h.Flight == nil || h.Flight.Credit != 0 {
		t.Errorf("have %+v", h)
	}
}

func TestLostLeaseIsGivenAgain(t *testing.T) {
	d := newDesk(t, thousand, "ap", "eu", "us")
	h := d.lease("eu", shop)
	lost := quota.Usage{Key: shop, Window: 200 * time.Millisecond, Admitted: 20 * quota.Token, Largest: quota.Token, Level: 20 * quota.Token, Burst: 33 * quota.Token}
	d.ops = nil
	d.sync("eu", uses(lost))
	d.round()
	if n := count[ledger.Assign](d.ops); n != 0 {
		t.Fatalf("a report from before the lease: have %v", d.ops)
	}
	d.wait(2500 * time.Millisecond)
	d.sync("eu", uses(lost))
	d.round()
	same := func(a ledger.Assign) bool {
		return a.Region == "eu" && a.Prev == h.Epoch && a.Lease == h.Lease && a.Credit == 0 && !a.Release
	}
	if !has(d.ops, same) {
		t.Errorf("have %+v, want the lease %v again", d.ops, h.Lease)
	}
}

func TestIdleLeaseIsRecalledAndTheAccountForgotten(t *testing.T) {
	d := newDesk(t, thousand, "ap", "eu", "us")
	d.lease("eu", shop)
	d.ops = nil
	for range 14 {
		d.wait(time.Second)
		resp := d.sync("eu")
		d.sync("eu", applies(resp.Assignments))
	}
	if !has(d.ops, func(a ledger.Assign) bool { return a.Region == "eu" && a.Release }) {
		t.Errorf("not recalled: %+v", d.ops)
	}
	if d.l.Len() != 0 || d.term.Keys() != 0 || count[ledger.Drop](d.ops) != 1 {
		t.Errorf("have %d accounts, %d keys in the book, %+v", d.l.Len(), d.term.Keys(), d.ops)
	}
}

func TestOrphanedAccountIsReleased(t *testing.T) {
	d := newDesk(t, thousand, "ap", "eu", "us")
	d.lease("eu", shop)
	d.ops = nil
	d.commit(ledger.SetRules{})
	d.round()
	if !has(d.ops, func(a ledger.Assign) bool { return a.Region == "eu" && a.Release }) {
		t.Errorf("have %+v", d.ops)
	}
}

// A new leader does not take away what it has not heard of yet.
func TestNewLeaderLeavesLeasesAlone(t *testing.T) {
	d := newDesk(t, thousand, "ap", "eu", "us")
	d.lease("eu", shop)
	d.elect()
	d.ops = nil
	d.sync("us", uses(greedy(shop))) // starves, and eu is not in touch yet
	d.round()
	if has(d.ops, func(a ledger.Assign) bool { return a.Region == "eu" }) {
		t.Errorf("assigned to a region that is not in touch: %+v", d.ops)
	}
	d.sync("eu")
	d.now += 300_000
	d.sync("us", uses(greedy(shop)))
	d.round()
	shrunk := func(a ledger.Assign) bool {
		return a.Region == "eu" && !a.Release && a.Lease.Burst > 300*quota.Token && a.Lease.Burst < 900*quota.Token
	}
	if !has(d.ops, shrunk) {
		t.Errorf("in touch again, it shares: have %+v", d.ops)
	}
}

// A region that does not answer keeps what is reserved for it, and nothing more
// is sent to it.
func TestRegionThatDoesNotAnswer(t *testing.T) {
	d := newDesk(t, thousand, "ap", "eu", "us")
	other := quota.Key("shop|user=bob")
	d.lease("eu", shop)
	d.lease("eu", other)
	d.sync("us", uses(greedy(shop)))
	d.round()
	d.term.Push(d.at(), d.l) // to eu: shrink; no answer
	d.now += 2500 * 1000
	d.sync("us", uses(greedy(shop), greedy(other)))
	d.ops = nil
	d.round()
	if has(d.ops, func(a ledger.Assign) bool { return a.Region == "eu" }) {
		t.Errorf("have %+v", d.ops)
	}
	if a := d.l.Account(shop); a.Pool().Burst < 0 {
		t.Errorf("pool is %v", a.Pool())
	}
}

func TestRoundsAreBounded(t *testing.T) {
	d := newDesk(t, thousand, "ap", "eu", "us")
	var usage []quota.Usage
	for i := range 10_000 {
		usage = append(usage, greedy(quota.Key(fmt.Sprintf("shop|user=%d", i))))
	}
	d.sync("eu", uses(usage...))
	var sizes []int
	for {
		ops, wake, propose := d.term.Next(d.at(), d.l)
		if !propose {
			break
		}
		if len(ops) == 4096 && wake != d.at() {
			t.Errorf("more is due now, and the next round is at %v", wake)
		}
		sizes = append(sizes, len(ops))
		d.term.Done(d.at(), d.l, ops, d.commit(ops...))
	}
	if want := []int{4096, 4096, 1808}; !slices.Equal(sizes, want) {
		t.Errorf("have rounds of %v, want %v", sizes, want)
	}
}

func TestExplain(t *testing.T) {
	d := newDesk(t, thousand, "ap", "eu", "us")
	d.lease("eu", shop)
	have := d.term.Demand(d.at(), shop)
	if len(have) != 1 || have[0].Region != "eu" || have[0].Agent != "eu-1" || have[0].PerSecond <= 0 || have[0].Denied < 0.8 || have[0].Largest != quota.Token {
		t.Errorf("have %+v", have)
	}
	contacts := d.term.Contacts(d.at())
	if len(contacts) != 3 || contacts[1].Region != "eu" || contacts[1].Session != d.session("eu") || contacts[1].Left != 11*quota.Second || !slices.Equal(contacts[1].Agents, []string{"eu-1"}) {
		t.Errorf("have %+v", contacts)
	}
}

// What a round costs for each key that three regions fight over.
func BenchmarkPlan(b *testing.B) {
	d := newDesk(new(testing.T), thousand, "ap", "eu", "us")
	usage := make([]quota.Usage, 1000)
	for i := range usage {
		usage[i] = greedy(quota.Key(fmt.Sprintf("shop|user=%d", i)))
	}
	for range 4 {
		for _, r := range []string{"ap", "eu", "us"} {
			resp := d.sync(r, uses(usage...))
			d.sync(r, applies(resp.Assignments))
		}
		d.round()
		d.now += 300_000
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if n%len(usage) == 0 {
			d.term.book.hurryAll(d.at())
		}
		e := d.term.book.next(d.at())
		if e == nil {
			b.Fatal("nothing is due")
		}
		if ops := d.term.plan(nil, d.at(), d.l, e); len(ops) > 0 {
			d.term.Done(d.at(), d.l, ops, nil)
		}
	}
}
