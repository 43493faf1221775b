package planner

import (
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
)

// An edit is in force in a region when the last of its agents decides by it: until then
// that one admits what no older rule counts.
func TestARegionHasAdoptedWhatAllOfItsAgentsDecideBy(t *testing.T) {
	for _, tt := range []struct {
		reason  string
		after   func(d *desk, has func(uint64) func(*quota.SyncRequest))
		adopted bool
	}{
		{"the other agent has not said so", func(*desk, func(uint64) func(*quota.SyncRequest)) {}, false},
		{"it says so", func(d *desk, has func(uint64) func(*quota.SyncRequest)) { d.sync("eu", by("eu-2"), has(2)) }, true},
		{"it still has the one before", func(d *desk, has func(uint64) func(*quota.SyncRequest)) { d.sync("eu", by("eu-2"), has(1)) }, false},
		{"it has gone", func(d *desk, _ func(uint64) func(*quota.SyncRequest)) { d.term.Gone(d.at(), "eu", "eu-2") }, true},
		{"it has not been heard for a session", func(d *desk, has func(uint64) func(*quota.SyncRequest)) {
			for range 12 {
				d.wait(time.Second)
				d.sync("eu", has(2))
			}
		}, true},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			d := newDesk(t, thousand, "eu", "us")
			first := d.l.Current().Version
			has := func(n uint64) func(*quota.SyncRequest) {
				return func(r *quota.SyncRequest) { r.Config = first + n - 1 }
			}
			d.sync("eu", by("eu-2"))
			d.commit(ledger.SetRules{Sources: document(500, "second", 500, "0.1")})
			d.round()
			var told []string
			for _, p := range d.term.Push(d.at(), d.l) {
				if p.Region == "eu" && p.Config != nil && p.Config.Version == first+1 {
					told = append(told, p.Agent)
				}
			}
			if want := []string{"eu-1", "eu-2"}; !slices.Equal(told, want) {
				t.Errorf("told %v, want %v", told, want)
			}
			d.sync("eu", has(2))
			tt.after(d, has)
			d.round()
			if have := d.l.Region("eu").Confirmed == first+1; have != tt.adopted {
				t.Errorf("adopted: have %t, want %t", have, tt.adopted)
			}
		})
	}
}

// A new leader does not know which agents there are until they have had time to connect.
func TestANewLeaderWaitsForTheAgentsOfARegion(t *testing.T) {
	d := newDesk(t, thousand, "eu", "us")
	d.sync("eu", by("eu-2"))
	d.commit(ledger.SetRules{Sources: document(500, "second", 500, "0.1")})
	d.round()
	d.elect()
	confirmed := func() bool { return d.l.Region("eu").Confirmed == d.l.Current().Version }
	d.sync("eu")
	d.wait(time.Second)
	if confirmed() {
		t.Fatal("taken as adopted before the other agent could connect")
	}
	d.sync("eu", by("eu-2"), func(r *quota.SyncRequest) { r.Config-- })
	d.wait(2 * time.Second)
	if confirmed() {
		t.Fatal("taken as adopted though one agent decides by the rules before")
	}
	d.sync("eu", by("eu-2"))
	d.round()
	if !confirmed() {
		t.Error("not taken as adopted")
	}
}
