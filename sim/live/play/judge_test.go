package play

import (
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/sim/live"
	"github.com/quorate/quorate/sim/scenario"
)

// judged returns a stage of a scenario with the rest of a document.
func judged(t *testing.T, text string) *stage {
	t.Helper()
	s, err := scenario.Parse("x.yaml", "regions: [eu, us]\nload: [{steady: 100}]\nduration: 60s\n"+text)
	if err != nil {
		t.Fatal(err)
	}
	stage, err := prepare(Options{Scenario: s})
	if err != nil {
		t.Fatal(err)
	}
	return stage
}

func TestFairSharesAreJudgedByWhatWasAskedFor(t *testing.T) {
	counts := func(offered, admitted, dropped uint64) live.Counts {
		return live.Counts{Offered: quota.Whole(offered), Admitted: quota.Whole(admitted), Dropped: quota.Whole(dropped)}
	}
	for _, tt := range []struct {
		reason         string
		eu, us         live.Counts // in ten seconds, of a limit of 100 a second
		judged, missed bool        // of eu
	}{
		{"half each", counts(1000, 500, 0), counts(1000, 500, 0), true, false},
		{"all that it asked for", counts(300, 300, 0), counts(1000, 700, 0), true, false},
		{"less than its half", counts(1000, 300, 0), counts(1000, 700, 0), true, true},
		{"less than it asked for, where there was more", counts(300, 150, 0), counts(200, 200, 0), true, true},
		{"what was never sent is no demand", counts(1000, 300, 700), counts(1000, 700, 0), true, false},
		{"arrivals are random", counts(1000, 450, 0), counts(1000, 500, 0), true, false},
		{"too few to say anything", counts(9, 2, 0), counts(1000, 990, 0), false, false},
	} {
		r := &run{stage: judged(t, "limit: {rate: 100}\n")}
		before := map[string]live.Counts{"eu": counts(70, 50, 0), "us": {}}
		after := map[string]live.Counts{"us": tt.us, "eu": {
			Offered: tt.eu.Offered + quota.Whole(70), Admitted: tt.eu.Admitted + quota.Whole(50), Dropped: tt.eu.Dropped,
		}}
		r.from = []live.Tally{{At: 5 * quota.Second, Regions: before}}
		r.to = []live.Tally{{At: 15 * quota.Second, Regions: after}}
		if eu := r.fair(0)[0]; eu.judged() != tt.judged || tt.judged && eu.missed() != tt.missed {
			t.Errorf("%s: have judged %v, missed %v of %+v", tt.reason, eu.judged(), eu.missed(), eu)
		}
		r.tracks = make([]*live.Track, 1)
		if have := r.unfair(); have != (tt.judged && tt.missed) {
			t.Errorf("%s: have unfair %v", tt.reason, have)
		}
	}
	if all := (&run{stage: judged(t, "limit: {rate: 100}\n")}).fair(0); all != nil {
		t.Errorf("nothing was measured, and have %+v", all)
	}
}

func TestTheWorstCaseIsAllowedOnlyWhereAnAssumptionIsBroken(t *testing.T) {
	full := func(seconds uint64) quota.Tokens { return quota.Whole(100 + 100*seconds) } // of the limit
	for _, tt := range []struct {
		reason, text string
		does         func(*conductor)
		want         quota.Tokens
	}{
		{"nothing happened", "limit: {rate: 100}\n", func(*conductor) {}, 0},
		{"a region was away, and has its standing share then", "limit: {rate: 100}\n",
			func(c *conductor) { c.lasted(30*time.Second, "eu") }, 0},
		{"it held its lease for so long", "limit: {rate: 100, on_disconnect: hold}\n",
			func(c *conductor) { c.lasted(30*time.Second, "eu") }, full(30)},
		{"for a TTL at least, each time", "limit: {rate: 100, on_disconnect: hold}\n",
			func(c *conductor) { c.lasted(time.Second, "eu", "us") }, 2 * full(10)},
		{"a store was away", "limit: {rate: 100, standing_share: 0.2}\n",
			func(c *conductor) { c.storeGone("eu"); c.storeBack("eu", 20*time.Second) }, 0},
		{"an agent died before it was", "limit: {rate: 100, standing_share: 0.2}\n",
			func(c *conductor) { c.killed("eu"); c.storeGone("eu"); c.storeBack("eu", 20*time.Second) }, 0},
		{"an agent died while it was, and owed it something", "limit: {rate: 100, standing_share: 0.2}\n",
			func(c *conductor) { c.storeGone("eu"); c.killed("eu"); c.storeBack("eu", 20*time.Second) }, quota.Whole(10 + 10*20)},
		{"an agent died before it had paid", "limit: {rate: 100, standing_share: 0.2}\n",
			func(c *conductor) { c.storeGone("eu"); c.storeBack("eu", 20*time.Second); c.killed("eu") }, quota.Whole(10 + 10*20)},
		{"an agent of another region died", "limit: {rate: 100, standing_share: 0.2}\n",
			func(c *conductor) { c.storeGone("eu"); c.killed("us"); c.storeBack("eu", 20*time.Second) }, 0},
		{"it owed nothing, as it denied", "limit: {rate: 100, standing_share: 0.2, on_store_failure: deny}\n",
			func(c *conductor) { c.storeGone("eu"); c.killed("eu"); c.storeBack("eu", 20*time.Second) }, 0},
	} {
		s := judged(t, tt.text)
		c := newConductor(t.Context(), s, nil, nil)
		tt.does(c)
		if have := c.allowed(0, s.policies(0)); have < tt.want || have > tt.want+1 {
			t.Errorf("%s: have %v, want %v", tt.reason, have, tt.want)
		}
		c.heal()
	}
	if s := judged(t, "limit: {rate: 100, on_store_failure: allow}\n"); !s.policies(0).allow {
		t.Error("a limit that allows all cannot be judged")
	}
}
