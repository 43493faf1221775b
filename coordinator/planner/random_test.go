package planner

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
)

// Random demand, cuts, deaths and elections: the bound holds, no pool is
// overdrawn, and the planner proposes nothing that the ledger refuses.
func TestRandomDemandIsNeverRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"ap", "eu", "sa", "us"}[:rapid.IntRange(1, 4).Draw(t, "regions")]
		burst := rapid.SampledFrom([]int{1, 2, 5, 30, 500, 4000}).Draw(t, "burst")
		rate := rapid.SampledFrom([]int{1, 5, 60, 1000}).Draw(t, "rate")
		unit := rapid.SampledFrom([]string{"second", "minute", "hour"}).Draw(t, "unit")
		share := rapid.SampledFrom([]string{"0", "0.1", "0.5", "1"}).Draw(t, "share")
		w := newWorld(rapid.Uint64Range(1, 1000).Draw(t, "seed"), document(rate, unit, burst, share), names...)
		w.delay = rapid.SampledFrom([]quota.Micros{1000, 30_000, 150_000}).Draw(t, "delay")
		keys := []quota.Key{shop, "shop|user=bob"}
		_, rule := w.l.Current().Rules().LimitOf(shop)
		for _, r := range w.regions {
			for _, k := range keys {
				load := rapid.SampledFrom([]float64{0, 0.2, 0.9, 3}).Draw(t, "load")
				period := rapid.SampledFrom([]float64{3, 7, 40}).Draw(t, "period")
				most := min(load*rule.Rate.PerSecond()+0.05, 2000)
				r.demand[k] = func(s float64) float64 { return most * (1 + math.Sin(2*math.Pi*s/period)) }
				r.cost[k] = quota.Whole(rapid.SampledFrom([]uint64{1, 1, 1, 3}).Draw(t, "cost"))
			}
		}
		edited := false // after it the toy regions start new shares full, which real ones do not
		for range rapid.IntRange(1, 6).Draw(t, "acts") {
			for w.open { // an edit in the middle of a round may make it outdated
				w.run(1000)
			}
			r := w.regions[rapid.IntRange(0, len(names)-1).Draw(t, "region")]
			switch rapid.SampledFrom([]string{"wait", "cut", "mend", "elect", "leaderless", "kill", "edit", "drain", "weigh"}).Draw(t, "act") {
			case "edit":
				edited = true
				w.apply(ledger.SetRules{Sources: document(rate*rapid.IntRange(1, 3).Draw(t, "rate"), unit, rapid.IntRange(1, 1000).Draw(t, "burst"), share)})
			case "drain":
				edited = true
				w.apply(ledger.DrainRegion{Region: r.name})
			case "weigh":
				edited = true
				w.apply(ledger.AddRegion{Region: r.name, Weight: rapid.Int64Range(1, 5).Draw(t, "weight")})
			case "cut":
				r.cut = true
			case "mend":
				r.cut = false
			case "elect":
				w.elect()
			case "leaderless":
				w.depose()
				w.run(2 * quota.Second)
				w.elect()
			case "kill":
				r.dead = true
			}
			w.run(quota.Micros(rapid.IntRange(1, 6).Draw(t, "seconds")) * quota.Second)
			w.l.Accounts(func(a *ledger.Account) bool {
				if p := a.Pool(); !edited && (p.Burst < 0 || p.Rate.Tokens < 0) {
					t.Fatalf("pool of %s is %v", a.Key, p)
				}
				return true
			})
			for k, c := range w.central {
				// The bucket that checks loses up to a micro-token with each request.
				if !edited && c.worst < -quota.Token/1000 {
					t.Fatalf("%s is overdrawn by %v", k, -c.worst)
				}
			}
		}
		for _, r := range w.refusals {
			// A share that grows has to wait until others have given way, and an
			// account opened after an edit may have less than a full pool.
			wait := strings.Contains(r, "Version:") && strings.Contains(r, ledger.ErrNoRoom.Error())
			bare := strings.Contains(r, "Prev:0") && strings.Contains(r, ledger.ErrCredit.Error())
			// The session may have ended before a sync of it was answered.
			late := strings.Contains(r, "Silent:false") && strings.Contains(r, ledger.ErrSession.Error())
			if !wait && !bare && !late {
				t.Fatalf("refused: %s", r)
			}
		}
	})
}
