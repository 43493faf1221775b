package sim

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
)

const (
	// unixZero is the Unix time when a run begins: half a minute into an hour.
	unixZero = (1_764_547_200 + 30) * quota.Second
	// little and much are by how much an agent's wall clock may be wrong at most, where
	// clocks drift and where they are set: two then differ by less than lease.Skew.
	little, much = quota.Second, 25 * quota.Second
)

// wall is the agent's wall clock, in Unix time.
func (a *agent) wall() quota.Micros { return unixZero + a.region.w.loop.Now() + a.skew }

// setWall makes the agent's wall clock wrong by another amount. The clocks that leases
// count with are other ones, and may be wrong by any.
func (w *World) setWall(a *agent) {
	switch {
	case w.plan.Faults.Steps > 0:
		a.skew = quota.Micros(w.skews.Int64N(int64(2*much))) - much
	case w.plan.Faults.DriftPPM > 0:
		a.skew = quota.Micros(w.skews.Int64N(int64(2*little))) - little
	}
}

// newSkews draws apart, so that worlds without windows stay what they are.
func newSkews(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x77a11c10c5)) }

// window returns the window of the key that a clock is in, none for a key without.
func (k *key) window(wall quota.Micros) rules.Window {
	if k.first.Windowed() {
		return k.first.WindowAt(wall)
	}
	return rules.Window{}
}

// in returns the name of the key in one of its windows.
func (k *key) in(win rules.Window) quota.Key {
	if win.IsZero() {
		return k.key
	}
	return k.rule.WindowKey(k.Domain, k.Entries, 0, win)
}

// current returns the name of the key now, by the true time.
func (w *World) current(k *key) quota.Key { return k.in(k.window(unixZero + w.loop.Now())) }

// always is the only window of a key without.
var always = []rules.Window{{}}

// windows returns the windows of a key in which some agent is.
func (w *World) windows(k *key) []rules.Window {
	if !k.first.Windowed() {
		return always
	}
	seen := map[rules.Window]bool{}
	for _, r := range w.regions {
		for _, a := range r.agents {
			seen[k.window(a.wall())] = true
		}
	}
	return slices.SortedFunc(maps.Keys(seen), func(a, b rules.Window) int { return cmp.Compare(a.Start, b.Start) })
}

// in returns what measures a window: a bucket that is never refilled, so that its Bound
// is the limit of the window to the token.
func (t *tally) in(win rules.Window) *meters {
	if win.IsZero() {
		return &t.meters
	}
	m := t.windows[win]
	if m == nil {
		one := bucketMeters(t.limit, 0)
		m = &one
		t.windows[win] = m
	}
	return m
}

// headroom is what could still be admitted of a window.
func (t *tally) headroom(win rules.Window, now quota.Micros) quota.Tokens {
	if win.IsZero() {
		return t.meter.Headroom(now)
	}
	if m := t.windows[win]; m != nil {
		return m.meter.Headroom(now)
	}
	return t.limit.Burst
}

// sum adds up all windows of the tally. debts are what there may be beyond the Bound.
func (t *tally) sum(k *KeyReport, debts quota.Tokens) {
	add := func(m *meters) {
		k.Admitted += m.meter.Admitted()
		k.Ideal += m.ideal.Admitted()
		k.DeniedWhileThere += m.spare.Denied()
		k.Overshoot = max(k.Overshoot, -m.meter.Worst()-debts)
	}
	add(&t.meters)
	for _, win := range slices.SortedFunc(maps.Keys(t.windows), func(a, b rules.Window) int { return cmp.Compare(a.Start, b.Start) }) {
		add(t.windows[win])
		k.Windows = append(k.Windows, t.windows[win].meter.Admitted())
	}
}

// checkWindows checks that the windows that began when everything had healed for a while
// were used: where all clocks agree on when that was, and no standing shares shrank then,
// which may be spent.
func (w *World) checkWindows(k int) {
	if w.plan.Faults.Steps > 0 || w.plan.Faults.Edits > 0 {
		return
	}
	t, limit := w.audit.keys[k], w.keys[k].limit
	for win, m := range t.windows {
		if win.Start < unixZero+w.measureFrom() {
			continue
		}
		owned := limit.Burst / quota.PPM * quota.Tokens(limit.Standing)
		want := min(m.ideal.Admitted(), limit.Burst-owned)
		if have := m.meter.Admitted(); have < want/10*9-2*quota.Token {
			w.violate("Liveness", "%v of %s were admitted, and %v could have been", have, w.keys[k].in(win), want)
		}
		w.count("windows measured after healing")
	}
}

// counted puts the same number of requests into windows in place of a bucket, in some
// of the worlds. Which these are is drawn apart, so that the others stay what they are.
func counted(p Plan, seed uint64, one int, document func(number int, standing float64) []quota.Source) Plan {
	r := rand.New(rand.NewPCG(seed, 0xf1dd))
	if r.IntN(one) != 0 {
		return p
	}
	number := []int{5, 20, 60}[r.IntN(3)]
	p.Rules = document(number, float64([]int{0, 1, 3}[r.IntN(3)])/10)
	for i := range p.Edited {
		p.Edited[i] = document(number, float64(r.IntN(9))/10)
	}
	return p
}

// windowed is a document with windows of a unit.
func windowed(unit string) func(number int, standing float64) []quota.Source {
	return func(number int, standing float64) []quota.Source {
		return []quota.Source{{Name: "api.yaml", Text: fmt.Sprintf(`domain: api
descriptors:
  - key: user
    rate_limit:
      requests_per_unit: %d
      unit: %s
      quota: {algorithm: fixed_window, standing_share: %g, on_store_failure: deny}
`, number, unit, standing)}}
	}
}
