package enforce

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/bucket"
)

// auditor is one central bucket that sees only what was admitted. Its level is
// below zero exactly when some interval had more than burst + rate*length.
type auditor struct {
	limit quota.Capacity
	level quota.Tokens
	at    quota.Micros
}

func (a *auditor) admit(now quota.Micros, cost quota.Tokens) (over quota.Tokens) {
	level, unspent := a.limit.Refill(a.level, now-a.at)
	a.level, a.at = level-cost, now-unspent
	return max(0, -a.level)
}

const boundRules = `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: second, requests_per_unit: 20, quota: {burst: 10, standing_share: 1}}
  - key: pair
    rate_limits:
      - {name: fast, unit: second, requests_per_unit: 10, quota: {burst: 5, standing_share: 1}}
      - {name: slow, unit: minute, requests_per_unit: 60, quota: {burst: 30, standing_share: 1}}
  - key: dark
    shadow_mode: true
    rate_limit: {unit: second, requests_per_unit: 3, quota: {standing_share: 1}}
  - key: other
    rate_limit: {unit: second, requests_per_unit: %d, quota: {on_store_failure: deny}}
`

// Whatever happens to the store, one agent that owns the whole limit admits no
// more than the limit: outages, lost answers, restarts with empty data, stale
// views, edits of other rules.
func TestBoundUnderStoreFaults(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, fmt.Sprintf(boundRules, 1))
		w.e.cfg.Leases = nil
		thirty, err := rules.NewOverride(30, rules.UnitSecond)
		if err != nil {
			rt.Fatal(err)
		}
		audits := map[quota.Key]*auditor{}
		lives, down, session := 1, false, quota.SessionID(1)
		for range rapid.IntRange(1, 150).Draw(rt, "steps") {
			w.now += time.Duration(rapid.SampledFrom([]int64{0, 1, 10, 50, 100, 300, 1000, 5000}).Draw(rt, "ms")) * time.Millisecond
			switch rapid.IntRange(0, 24).Draw(rt, "event") {
			case 0:
				w.fail, w.lost, down = ErrStoreDown, nil, true
			case 1, 2:
				w.fail, w.lost, down = nil, nil, false
			case 3:
				w.lost = context.DeadlineExceeded
			case 4:
				lives++
				w.store = bucket.NewStore()
				w.store.Incarnate(w.time(), fmt.Sprint("i", lives))
				old := w.e.Adoption()
				w.version++
				w.adopt(fmt.Sprintf(boundRules, lives))
				w.e.Adopt(old) // the enforcer has yet to find out
			case 5:
				old := w.e.Adoption()
				w.adopt(fmt.Sprintf(boundRules, 2+rapid.IntRange(0, 1).Draw(rt, "other")))
				if rapid.Bool().Draw(rt, "stale") {
					w.e.Adopt(old)
				}
			case 6, 7:
				if !down {
					w.read()
				}
				if err := w.e.Settle(context.Background()); err != nil && w.lost == nil && !down {
					rt.Fatal(err)
				}
			case 8:
				if !down {
					w.read()
					session++
					w.connect(session)
					w.grant("api|user=a", 1, 1, 1, 0)
					w.grant("api|user=a##override+1+30", 1, 1, 1, 0)
				}
			}
			var ds []Descriptor
			for range rapid.IntRange(1, 3).Draw(rt, "descriptors") {
				ds = append(ds, d(rapid.SampledFrom([]string{"user=a", "user=b", "pair=x", "dark=x", "nothing=x"}).Draw(rt, "descriptor"),
					uint64(rapid.IntRange(0, 4).Draw(rt, "hits"))))
				if rapid.IntRange(0, 3).Draw(rt, "override") == 0 {
					ds[len(ds)-1].Override = thirty
				}
			}
			dec := w.decide(1, ds...)
			if dec.Over {
				continue
			}
			costs := map[quota.Key]quota.Tokens{}
			for _, one := range ds {
				if r, l, k := w.e.Adoption().Set.Overridden("api", one.Entries, one.Override); l != nil && !r.Shadow {
					costs[k] += quota.Whole(*one.Hits)
					if audits[k] == nil {
						audits[k] = &auditor{limit: l.Capacity, level: l.Burst, at: w.time()}
					}
					continue
				}
				r := w.e.Adoption().Set.Match("api", one.Entries)
				for i := 0; r != nil && !r.Shadow && i < len(r.Limits); i++ {
					k := r.Key("api", one.Entries, i)
					costs[k] += quota.Whole(*one.Hits)
					if audits[k] == nil {
						audits[k] = &auditor{limit: r.Limits[i].Capacity, level: r.Limits[i].Burst, at: w.time()}
					}
				}
			}
			for k, cost := range costs {
				if over := audits[k].admit(w.time(), cost); over > 0 {
					rt.Fatalf("%s: %v tokens above the bound at %v", k, over, w.now)
				}
			}
		}
	})
}

func benchmark(b *testing.B, ds ...Descriptor) {
	w := newWorld(b, `
domain: api
descriptors:
  - {key: user, rate_limit: {unit: second, requests_per_unit: 4000000000, quota: {standing_share: 1}}}
  - key: pair
    rate_limits:
      - {name: fast, unit: second, requests_per_unit: 4000000000, quota: {standing_share: 1}}
      - {name: slow, unit: minute, requests_per_unit: 4000000000, quota: {standing_share: 1}}
`)
	e := w.e
	e.cfg.Store, e.cfg.Demand = instant{}, w.tracker
	req := Request{Domain: "api", Descriptors: ds}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if dec, err := e.Decide(context.Background(), w.now, req); err != nil || dec.Over {
				b.Fatal(dec, err)
			}
		}
	})
}

// instant is a store that costs nothing, so that the benchmark shows what
// deciding costs beside it.
type instant struct{}

func (instant) Take(_ context.Context, t Take) (TakeResult, error) {
	res := TakeResult{Now: start, Admitted: true, Verdicts: make([]bucket.Verdict, len(t.Asks))}
	for i, a := range t.Asks {
		res.Verdicts[i] = bucket.Verdict{Admitted: true, Holding: bucket.OnStanding, Level: a.Standing.Burst, Capacity: a.Standing.Capacity}
	}
	return res, nil
}

func (instant) Charge(context.Context, string, []bucket.Charge) error { return nil }

func BenchmarkDecide(b *testing.B) {
	b.Run("one_limit", func(b *testing.B) { benchmark(b, d("user=alice")) })
	b.Run("two_descriptors_three_limits", func(b *testing.B) { benchmark(b, d("user=alice"), d("pair=x")) })
	b.Run("no_rule", func(b *testing.B) { benchmark(b, d("nothing=x")) })
}
