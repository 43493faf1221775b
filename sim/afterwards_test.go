package sim

import (
	"reflect"
	"strings"
	"testing"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
)

// Refunds and settlements are drawn apart: every seventh world of the swarm has some, half
// of the buckets among them with debts, and the others are what they were.
func TestEverySeventhWorldIsAmended(t *testing.T) {
	drawn, debts, of := 0, 0, map[Afterwards]int{}
	for seed := range uint64(1000) {
		p, was := Swarm(seed), overridden(swarm(seed), seed)
		if reflect.DeepEqual(p, was) {
			continue
		}
		drawn++
		if strings.Contains(p.Rules[0].Text, "max_debt") {
			debts++
		}
		for i := range p.Load {
			of[p.Load[i].Afterwards]++
			p.Load[i].Afterwards, p.Load[i].MostCost = "", was.Load[i].MostCost
		}
		for i := range p.Final {
			p.Final[i].Afterwards = ""
		}
		p.Rules, p.Edited = was.Rules, was.Edited
		if !reflect.DeepEqual(p, was) {
			t.Fatalf("seed %d: more has changed than what is done afterwards, costs and rules", seed)
		}
	}
	if drawn < 110 || drawn > 180 || debts < drawn/5 || debts > drawn/2 || of[Refund] < of[Settle]/2 || of[Settle] < of[Refund]/2 || of[""] == 0 {
		t.Errorf("have %d of 1000 worlds, %d with debts, loads %v", drawn, debts, of)
	}
}

// The worlds with refunds and settlements keep every promise, and come to what there is
// to see of them.
func TestAmendedWorlds(t *testing.T) {
	counts := Counts{}
	var given, uncharged quota.Tokens
	for seed, n := uint64(1), 0; n < 60; seed++ {
		p := Swarm(seed)
		if len(p.Load) == 0 || p.Load[0].Afterwards == "" {
			continue
		}
		n++
		r := keeps(t, p, seed)
		for what, n := range r.Counts {
			counts[what] += n
		}
		for _, k := range r.Keys {
			given, uncharged = given+k.GivenBack, uncharged+k.Uncharged
			if k.GivenBack > k.Admitted {
				t.Errorf("seed %d: %v were given back of %v", seed, k.GivenBack, k.Admitted)
			}
		}
	}
	for _, what := range []string{
		"refunds", "refunds that were lost, or a part of them", "settlements that charged", "settlements that left something uncharged",
		"debts made", "debts lost with their store",
	} {
		if counts[what] == 0 {
			t.Errorf("never: %s", what)
		}
	}
	if given == 0 || uncharged == 0 {
		t.Errorf("given back %v, uncharged %v", given, uncharged)
	}
}

// amendable is a world that has just begun, with a key whose bucket has 40 tokens and may
// owe 20.
func amendable(t *testing.T) (*World, *region, *audit) {
	t.Helper()
	p := Swarm(1)
	p.Rules = document(swarmLimit{1, "requests_per_unit: 1", "burst: 40, max_debt: 20"}, 0.3, "deny")
	p.Load = nil
	w, err := newWorld(p, 1)
	if err != nil {
		t.Fatal(err)
	}
	w.loop.Run(5 * quota.Second)
	return w, w.regions[0], w.audit
}

// broken is the first promise that a world has broken, "" for none.
func broken(w *World) string {
	for _, v := range w.report().Violations {
		return v.Promise
	}
	return ""
}

// What is given back may be admitted again, as far as a bucket has taken it, and no more
// than the request gave.
func TestTheAuditorCountsWhatABucketHasTakenBack(t *testing.T) {
	for _, tt := range []struct {
		reason      string
		taken, cost uint64 // of a refund
		more        uint64 // admitted right after all was spent and some given back
		want        string
	}{
		{"what was given back", 5, 5, 5, ""},
		{"a token more", 5, 5, 6, "Bound"},
		{"what was lost on the way", 3, 5, 4, "Bound"},
		{"more than was given", 9, 5, 6, "Bound"},
	} {
		w, r, audit := amendable(t)
		debts := w.indebtedness(0)
		by := r.agents[0]
		audit.admitted(by, 0, rules.Window{}, 40*quota.Token+debts, enforce.Decision{})
		by.given = quota.Whole(tt.taken)
		audit.givenBack(by, 0, rules.Window{}, quota.Whole(tt.cost), enforce.Decision{})
		audit.admitted(by, 0, rules.Window{}, quota.Whole(tt.more), enforce.Decision{})
		if have := broken(w); have != tt.want {
			t.Errorf("%s: have %q broken, want %q", tt.reason, have, tt.want)
		}
	}
}

// Without the store an agent takes back what it has admitted since.
func TestTheAuditorCountsWhatAnAgentForgetsThatItOwes(t *testing.T) {
	w, r, audit := amendable(t)
	w.keys[0].first.OnStoreFailure = rules.OnStoreFailureLocal
	by, degraded := r.agents[0], enforce.Decision{Degraded: true}
	audit.admitted(by, 0, rules.Window{}, 4*quota.Token, degraded)
	for range 2 {
		audit.givenBack(by, 0, rules.Window{}, 3*quota.Token, degraded)
	}
	if have := audit.keys[0].givenBack; have != 4*quota.Token || by.owed[w.keys[0].key] != 0 {
		t.Errorf("%v were given back, and %v are owed still", have, by.owed[w.keys[0].key])
	}
}

func TestTheAuditorKnowsWhatMayBeOwed(t *testing.T) {
	for _, tt := range []struct {
		reason          string
		cost            int64
		settle          bool
		level, unplaced int64 // after the take
		broken          bool
	}{
		{"all that may be owed", 30, false, -20, 0, false},
		{"more", 30, false, -21, 0, true},
		{"of a bucket in debt", 10, false, -10, 0, true},
		{"a settlement of a bucket in debt", 10, true, -10, 0, false},
		{"that is too deep", 10, true, -21, 0, true},
		{"nothing of a bucket below the floor", 10, true, -30, 10, false},
		{"a part, down to the floor", 10, true, -20, 4, false},
		{"a part, though there is room", 10, true, -19, 4, true},
		{"a refund leaves what it finds", -5, false, -30, 0, false},
	} {
		w, r, audit := amendable(t)
		ask := bucket.Ask{Key: w.keys[0].key, Cost: quota.Tokens(tt.cost) * quota.Token, Settle: tt.settle}
		audit.owing(r, ask, bucket.Verdict{Level: quota.Tokens(tt.level) * quota.Token, Uncharged: quota.Tokens(tt.unplaced) * quota.Token})
		if have := broken(w); (have == "Debt") != tt.broken || have != "" && have != "Debt" {
			t.Errorf("%s: have %q broken", tt.reason, have)
		}
	}
}

// A store that is reset has forgotten what its region owed. That much may be admitted
// again, and no more.
func TestADebtIsForgottenWithItsStore(t *testing.T) {
	w, r, audit := amendable(t)
	k := w.keys[0]
	if err := r.store.Charge(r.time(), r.store.State(r.time()).Incarnation, []bucket.Charge{{Key: k.key, Tokens: quota.Whole(200), Standing: r.agents[0].standing("", k.key, r.time())}}); err != nil {
		t.Fatal(err)
	}
	owed := w.owed(k)
	audit.admitted(r.agents[0], 0, rules.Window{}, 40*quota.Token+owed, enforce.Decision{})
	before := audit.keys[0].headroom(rules.Window{}, w.loop.Now())
	r.reset(true)
	if have := audit.keys[0].headroom(rules.Window{}, w.loop.Now()) - before; have != owed || owed < 150*quota.Token || w.owed(k) != 0 {
		t.Errorf("%v were owed, %v were given back, and %v are owed still", owed, have, w.owed(k))
	}
}

func TestNobodyKnowsWhatElseToDoAfterwards(t *testing.T) {
	p := Swarm(1)
	p.Load[0].Afterwards = "regret"
	if _, err := Run(p, 1); err == nil || !strings.Contains(err.Error(), "regret") {
		t.Errorf("have %v", err)
	}
}
