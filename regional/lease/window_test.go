package lease

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/bucket"
)

// windows is a rule document with n requests a minute in windows, of which the region
// has half of share, or without that rule for n = 0.
func windows(n int, share float64, other int) string {
	text := fmt.Sprintf("domain: api\ndescriptors:\n  - {key: other, rate_limit: {unit: second, requests_per_unit: %d}}\n", other)
	if n > 0 {
		text += fmt.Sprintf("  - {key: user, rate_limit: {unit: minute, requests_per_unit: %d, quota: {algorithm: fixed_window, standing_share: %.2f}}}\n", n, share)
	}
	return text
}

const minute = 60 * quota.Second

// aheadOf is how much Unix time is ahead of the store's clock in these tests.
const aheadOf = 1_000_000 * quota.Second

// window returns the window of a time on the store's clock, and alice's key in it.
func window(at quota.Micros) (rules.Window, quota.Key) {
	start := (at + aheadOf) / minute * minute
	w := rules.Window{Start: start, End: start + minute}
	return w, quota.Key(fmt.Sprintf("api|user=alice##%d+60", start/quota.Second))
}

// standing is what the region has of alice's window at a time, for an agent whose
// clock is ahead by skew.
func (r *region) standing(skew quota.Micros) bucket.Standing {
	r.t.Helper()
	_, k := window(r.now + skew)
	st := r.cur.StandingAt(k, r.now, r.now+aheadOf+skew)
	if err := st.Valid(); err != nil {
		r.t.Fatal(err)
	}
	return st
}

// begin goes to the beginning of the next minute, and some seconds on.
func (r *region) begin(seconds quota.Micros) {
	w, _ := window(r.now)
	r.now = w.End - aheadOf + seconds*quota.Second
}

func TestStandingOfAWindowWithoutARecord(t *testing.T) {
	for _, c := range []struct {
		name string
		play func(r *region)
		want int64
	}{
		{"the first rules of the first incarnation: full", func(r *region) {
			r.adopt(config(1, windows(100, 0.2, 1)), nil)
		}, 10},
		{"a new rule starts full", func(r *region) {
			r.adopt(config(1, windows(0, 0, 1)), nil)
			r.now += quota.Second
			r.adopt(config(2, windows(100, 0.2, 1)), r.cur)
		}, 10},
		{"also one that counted in a bucket before: that is another key", func(r *region) {
			r.adopt(config(1, doc(100, 100, 0.2, 1)), nil)
			r.now += quota.Second
			r.adopt(config(2, windows(100, 0.2, 1)), r.cur)
		}, 10},
		{"a rule that others may have counted in a version that was skipped: empty", func(r *region) {
			r.adopt(config(1, windows(0, 0, 1)), nil)
			r.begin(1)
			r.adopt(config(3, windows(100, 0.2, 1)), r.cur)
		}, 0},
		{"but the windows that begin later are full", func(r *region) {
			r.adopt(config(1, windows(0, 0, 1)), nil)
			r.begin(1)
			r.adopt(config(3, windows(100, 0.2, 1)), r.cur)
			r.begin(0)
			r.begin(0)
		}, 10},
		{"an edit elsewhere changes nothing", func(r *region) {
			r.adopt(config(1, windows(100, 0.2, 1)), nil)
			for v := range uint64(5) {
				r.now += quota.Second / 100
				r.adopt(config(v+2, windows(100, 0.2, int(v+2))), r.cur)
			}
		}, 10},
		{"a larger share has the tokens of the smaller one in the window that runs", func(r *region) {
			r.adopt(config(1, windows(100, 0.2, 1)), nil)
			r.begin(20)
			r.adopt(config(2, windows(300, 0.2, 1)), r.cur)
		}, 10},
		{"in the next as well: an agent that is ahead may have been in it before", func(r *region) {
			r.adopt(config(1, windows(100, 0.2, 1)), nil)
			r.begin(20)
			r.adopt(config(2, windows(300, 0.2, 1)), r.cur)
			r.begin(59)
		}, 10},
		{"and all of its own from then on", func(r *region) {
			r.adopt(config(1, windows(100, 0.2, 1)), nil)
			r.begin(20)
			r.adopt(config(2, windows(300, 0.2, 1)), r.cur)
			r.begin(59)
			r.begin(0)
		}, 30},
		{"a smaller one is full", func(r *region) {
			r.adopt(config(1, windows(100, 0.2, 1)), nil)
			r.begin(20)
			r.adopt(config(2, windows(100, 0.1, 1)), r.cur)
		}, 5},
		{"a store that is lost strands the share of the window that runs", func(r *region) {
			r.adopt(config(1, windows(100, 0.2, 1)), nil)
			r.begin(20)
			r.store.Incarnate(r.now, "i2")
			r.read()
			r.now += 39 * quota.Second
		}, 0},
		{"and of one that an agent ahead may have been in", func(r *region) {
			r.adopt(config(1, windows(100, 0.2, 1)), nil)
			r.begin(20)
			r.store.Incarnate(r.now, "i2")
			r.read()
			r.begin(59)
		}, 0},
		{"and no later one", func(r *region) {
			r.adopt(config(1, windows(100, 0.2, 1)), nil)
			r.begin(20)
			r.store.Incarnate(r.now, "i2")
			r.read()
			r.begin(59)
			r.begin(0)
		}, 10},
		{"long after a loss, an edit elsewhere changes nothing", func(r *region) {
			r.adopt(config(1, windows(100, 0.2, 1)), nil)
			r.store.Incarnate(r.now, "i2")
			r.now += 10 * minute
			r.adopt(config(2, windows(100, 0.2, 2)), r.cur)
			r.now += minute
			r.adopt(config(3, windows(100, 0.2, 3)), r.cur)
		}, 10},
		{"and a larger share has the tokens of the smaller one", func(r *region) {
			r.adopt(config(1, windows(100, 0.2, 1)), nil)
			r.store.Incarnate(r.now, "i2")
			r.now += 10 * minute
			r.adopt(config(2, windows(100, 0.2, 2)), r.cur)
			r.now += 10 * minute
			r.adopt(config(3, windows(300, 0.2, 3)), r.cur)
		}, 10},
		{"a region that joined late: empty in the window that runs", func(r *region) {
			r.store.Incarnate(r.now, "i2")
			r.begin(20)
			r.adopt(config(7, windows(100, 0.2, 1)), nil)
		}, 0},
		{"and full later", func(r *region) {
			r.store.Incarnate(r.now, "i2")
			r.begin(20)
			r.adopt(config(7, windows(100, 0.2, 1)), nil)
			r.begin(0)
			r.begin(0)
		}, 10},
		{"no share of an hour, now that minutes are counted", func(r *region) {
			r.adopt(config(1, windows(100, 0, 1)), nil)
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRegion(t, true)
			c.play(r)
			if st := r.standing(0); st.Base != quota.Whole(uint64(c.want)) {
				t.Errorf("have %v, want %d; standing %+v", st.Base, c.want, st)
			}
		})
	}
}

func TestAWindowThatIsOverHasNothing(t *testing.T) {
	r := newRegion(t, true)
	r.adopt(config(1, windows(100, 0.2, 1)), nil)
	w, k := window(r.now)
	at := func(wall quota.Micros) bucket.Standing { return r.cur.StandingAt(k, wall-aheadOf, wall) }
	if st := at(w.End - 1); st.Base != quota.Whole(10) || st.Lasts != Skew+lastsStep {
		t.Errorf("its last moment: have %+v", st)
	}
	if st := at(w.End); st.Base != 0 || st.Lasts != Skew {
		t.Errorf("its end: have %+v", st)
	}
	if st := r.cur.StandingAt("api|user=alice##0+3600", r.now, r.now+aheadOf); st.Burst != 0 || st.Base != 0 || st.Lasts == 0 {
		t.Errorf("a window that no rule counts: have %+v", st)
	}
	if have, want := r.cur.StandingAt("api|other=x", r.now, 0), r.cur.StandingOf("api|other=x", r.now); have != want {
		t.Errorf("no window: have %+v, want %+v", have, want)
	}
}

// Whatever is edited and lost, with clocks that differ by no more than Skew, the region
// spends of no window more than the share that it had when the window began, or when
// its rule was new.
func TestNoWindowIsSpentTwice(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRegion(t, rapid.Bool().Draw(rt, "first"))
		version, lives := uint64(0), 1
		spent, owned := map[quota.Key]quota.Tokens{}, map[quota.Key]quota.Tokens{}
		edit := func() {
			version += uint64(rapid.IntRange(1, 2).Draw(rt, "skip"))
			was := r.cur
			r.adopt(config(version, windows(100*rapid.IntRange(1, 3).Draw(rt, "limit"), 0.2, int(version))), was)
		}
		edit()
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			r.now += quota.Micros(rapid.Int64Range(0, 30e6).Draw(rt, "time"))
			r.store.Sweep(r.now)
			// Whoever is ahead most finds a window first.
			for ahead := quota.Micros(0); ahead <= Skew; ahead += 20 * quota.Second {
				_, k := window(r.now + ahead)
				if _, ok := owned[k]; !ok {
					_, l := r.cur.Set.LimitOf(k)
					owned[k] = r.cur.limits[l].share.Burst
				}
			}
			switch rapid.IntRange(0, 9).Draw(rt, "what") {
			case 0:
				edit()
				continue
			case 1:
				lives++
				r.store.Incarnate(r.now, fmt.Sprintf("i%d", lives))
				r.read()
				continue
			}
			skew := quota.Micros(rapid.Int64Range(0, int64(Skew)).Draw(rt, "skew"))
			_, k := window(r.now + skew)
			cost := quota.Whole(uint64(rapid.IntRange(1, 30).Draw(rt, "cost")))
			// What an agent knows of the store's clock may be old.
			old := quota.Micros(rapid.Int64Range(0, 5e6).Draw(rt, "old"))
			st := r.cur.StandingAt(k, r.now-old, r.now+aheadOf+skew)
			if ok, _ := r.store.Take(r.now, []bucket.Ask{{Key: k, Cost: cost, Standing: st}}); ok {
				spent[k] += cost
			}
			if spent[k] > owned[k] {
				rt.Fatalf("of %s %v were spent, and the share was %v", k, spent[k], owned[k])
			}
		}
	})
}
