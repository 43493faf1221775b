package sim

import (
	"reflect"
	"strings"
	"testing"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
)

// An override is drawn apart: every fifth world of the swarm has one, and without it is
// what it was before there were any.
func TestEveryFifthWorldHasAnOverride(t *testing.T) {
	drawn, guests := 0, 0
	for seed := range uint64(1000) {
		was := swarm(seed)
		p := overridden(swarm(seed), seed)
		k := &p.Keys[len(p.Keys)-1]
		if k.Override.IsZero() {
			if !reflect.DeepEqual(p, was) {
				t.Fatalf("seed %d: a world without an override has changed", seed)
			}
			continue
		}
		drawn++
		if k.Entries[0].Key == "guest" {
			guests++
		}
		if *k = was.Keys[len(p.Keys)-1]; !reflect.DeepEqual(p, was) {
			t.Fatalf("seed %d: more has changed than the last key", seed)
		}
	}
	if drawn < 150 || drawn > 250 || guests < drawn/3 || guests > 2*drawn/3 {
		t.Errorf("have %d of 1000 worlds with an override, %d where no rule matches", drawn, guests)
	}
}

// The worlds with an override are played, used and judged as all others are.
func TestWorldsWithOverrides(t *testing.T) {
	admitted, denied := quota.Tokens(0), quota.Tokens(0)
	for seed, n := uint64(1), 0; n < 40; seed++ {
		p := Swarm(seed)
		if p.Keys[len(p.Keys)-1].Override.IsZero() {
			continue
		}
		n++
		r := keeps(t, p, seed)
		k := r.Keys[len(r.Keys)-1]
		if !strings.Contains(string(k.Key), "##override+") || k.Limit.Standing != 0 || k.Admitted > k.Ideal {
			t.Errorf("seed %d: have %+v", seed, k)
		}
		admitted, denied = admitted+k.Admitted, denied+k.Denied
	}
	if admitted == 0 || denied == 0 {
		t.Errorf("admitted %v, denied %v", admitted, denied)
	}
}

// The auditor holds an override's admissions against the override, not against the rule.
func TestAnOverrideIsAuditedForItself(t *testing.T) {
	p := Swarm(1)
	p.Rules = document(swarmLimit{20, "requests_per_unit: 20", "burst: 40"}, 0.3, "deny")
	var err error
	if p.Keys[1].Override, err = rules.ParseOverride("3/hour"); err != nil {
		t.Fatal(err)
	}
	w, err := newWorld(p, 1)
	if err != nil {
		t.Fatal(err)
	}
	w.loop.Run(5 * quota.Second)
	m := w.audit.keys[1].in(rules.Window{})
	for range 3 {
		m.meter.Admit(w.loop.Now(), quota.Token)
	}
	m.meter.Admit(w.loop.Now(), 50*quota.Token)
	for _, v := range w.report().Violations {
		if v.Promise == "Bound" || v.Promise == "Worst" {
			return
		}
	}
	t.Error("50 tokens beyond 3 an hour are within the Bound")
}

func TestAPlanWhoseOverrideDoesNotCountIsRefused(t *testing.T) {
	p := Swarm(1)
	var err error
	if p.Keys[1].Override, err = rules.ParseOverride("3/hour"); err != nil {
		t.Fatal(err)
	}
	p.Rules = []quota.Source{{Name: "api.yaml", Text: "allow_override: false\n" + p.Rules[0].Text}}
	if _, err := Run(p, 1); err == nil || !strings.Contains(err.Error(), "override") {
		t.Errorf("have %v", err)
	}
}
