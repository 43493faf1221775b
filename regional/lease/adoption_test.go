package lease

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
)

const key = quota.Key("api|user=alice")

// doc is a rule document with one rule for users, or without it for n = 0, and
// another rule beside it.
func doc(n, burst int, share float64, other int) string {
	text := fmt.Sprintf("domain: api\ndescriptors:\n  - {key: other, rate_limit: {unit: second, requests_per_unit: %d}}\n", other)
	if n > 0 {
		text += fmt.Sprintf("  - {key: user, rate_limit: {unit: second, requests_per_unit: %d, quota: {burst: %d, standing_share: %.2f}}}\n", n, burst, share)
	}
	return text
}

func config(version uint64, text string, weights ...int64) quota.Config {
	c := quota.Config{Version: version, Sources: []quota.Source{{Name: "a.yaml", Text: text}}, Shares: quota.Shares{{Region: "eu", Weight: 1}, {Region: "us", Weight: 1}}}
	for i, w := range weights {
		c.Shares[i].Weight = w
	}
	return c
}

// region is a store with the agent that adopts into it.
type region struct {
	t     testing.TB
	store *bucket.Store
	now   quota.Micros
	cur   *Adoption
}

func newRegion(t testing.TB, first bool) *region {
	r := &region{t: t, store: bucket.NewStore(), now: 1000 * quota.Second}
	r.store.Incarnate(r.now, "i1")
	if first {
		if err := r.store.MarkFirst("i1"); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// adopt adopts c, as an agent that saw after adopted last.
func (r *region) adopt(c quota.Config, after *Adoption) {
	r.t.Helper()
	blob, err := Encode(c, "eu", after)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.store.Adopt(r.now, r.store.State(r.now).Incarnation, c.Version, blob); err != nil {
		r.t.Fatal(err)
	}
	r.read()
}

func (r *region) read() {
	r.t.Helper()
	cur, prev := r.store.Config()
	a, err := Adopt("eu", 0, r.store.State(r.now), cur, prev)
	if err != nil {
		r.t.Fatal(err)
	}
	r.cur = a
}

// level is what a bucket of key without a record has at now + in.
func (r *region) level(in quota.Micros) quota.Tokens {
	st := r.cur.StandingOf(key, r.now)
	if err := st.Valid(); err != nil {
		r.t.Fatal(err)
	}
	level, _ := st.Refill(st.Base, r.now+in-st.Began())
	return level
}

func TestStandingOfAMissingRecord(t *testing.T) {
	for _, c := range []struct {
		name string
		play func(r *region)
		in   quota.Micros
		want int64
	}{
		{"the first configuration of the first incarnation: full", func(r *region) {
			r.adopt(config(1, doc(100, 100, 0.2, 1)), nil)
		}, 0, 10},
		{"not the first incarnation: since it began", func(r *region) {
			r.now += quota.Second / 2
			r.store.Incarnate(r.now, "i2")
			r.adopt(config(1, doc(100, 1000, 0.2, 1)), nil)
			r.now += 3 * quota.Second
			r.read()
		}, 2*quota.Second + bucket.DrawSpan, 50},
		{"a new rule starts full", func(r *region) {
			r.adopt(config(1, doc(0, 0, 0, 1)), nil)
			r.now += quota.Second
			r.adopt(config(2, doc(100, 100, 0.2, 1)), r.cur)
		}, 0, 10},
		{"an edit elsewhere changes nothing", func(r *region) {
			r.adopt(config(1, doc(100, 100, 0.2, 1)), nil)
			for v := range uint64(5) {
				r.now += quota.Second / 100
				r.adopt(config(v+2, doc(100, 100, 0.2, int(v+2))), r.cur)
			}
		}, 0, 10},
		{"a raise gives no free burst", func(r *region) {
			r.adopt(config(1, doc(100, 100, 0.2, 1)), nil)
			r.now += quota.Second
			r.adopt(config(2, doc(200, 200, 0.2, 1)), r.cur)
		}, 0, 10},
		{"until the new rate has given that much too", func(r *region) {
			r.adopt(config(1, doc(100, 100, 0.2, 1)), nil)
			r.now += quota.Second
			r.adopt(config(2, doc(200, 200, 0.2, 1)), r.cur)
		}, quota.Second / 4, 10},
		{"and gains at the new rate from then on", func(r *region) {
			r.adopt(config(1, doc(100, 100, 0.2, 1)), nil)
			r.now += quota.Second
			r.adopt(config(2, doc(200, 200, 0.2, 1)), r.cur)
		}, 3 * quota.Second / 4, 15},
		{"a raised share of the table is a raise", func(r *region) {
			r.adopt(config(1, doc(100, 100, 0.2, 1), 1, 1), nil)
			r.now += quota.Second
			r.adopt(config(2, doc(100, 100, 0.2, 1), 3, 1), r.cur)
		}, 0, 10},
		{"lowering cuts", func(r *region) {
			r.adopt(config(1, doc(100, 100, 0.2, 1)), nil)
			r.now += quota.Second
			r.adopt(config(2, doc(50, 50, 0.2, 1)), r.cur)
		}, 0, 5},
		{"down and up again is no refill", func(r *region) {
			r.adopt(config(1, doc(100, 100, 0.2, 1)), nil)
			r.now += quota.Second
			r.adopt(config(2, doc(10, 10, 0.2, 1)), r.cur)
			r.now += quota.Second
			r.adopt(config(3, doc(100, 100, 0.2, 1)), r.cur)
		}, 0, 1},
		{"twice raised within the time to full: what it gained since the first", func(r *region) {
			r.adopt(config(1, doc(10, 10, 0.2, 1)), nil)
			r.now += quota.Second
			r.adopt(config(2, doc(100, 100, 0.2, 1)), r.cur)
			r.now += quota.Second / 2
			r.adopt(config(3, doc(200, 200, 0.2, 1)), r.cur)
		}, 0, 5},
		{"an edit elsewhere right after a raise", func(r *region) {
			r.adopt(config(1, doc(10, 10, 0.2, 1)), nil)
			r.now += quota.Second
			r.adopt(config(2, doc(100, 100, 0.2, 1)), r.cur)
			r.now += quota.Second / 2
			r.adopt(config(3, doc(100, 100, 0.2, 2)), r.cur)
		}, 0, 5},
		{"adopted over a version that the agent had not seen", func(r *region) {
			r.adopt(config(1, doc(100, 100, 0.2, 1)), nil)
			seen := r.cur
			r.now += quota.Second
			r.adopt(config(2, doc(10, 10, 0.2, 1)), seen)
			r.now += quota.Second / 10
			r.adopt(config(3, doc(100, 100, 0.2, 1)), seen)
			r.now += quota.Second / 10
			r.adopt(config(4, doc(100, 100, 0.2, 2)), r.cur)
		}, 0, 1},
		{"no share: nothing, whenever", func(r *region) {
			r.adopt(config(1, doc(100, 100, 0, 1)), nil)
		}, quota.Second, 0},
		{"a drained region: nothing", func(r *region) {
			r.adopt(config(1, doc(100, 100, 0.2, 1), 0, 1), nil)
		}, quota.Second, 0},
		{"no rule counts the key: nothing", func(r *region) {
			r.adopt(config(1, doc(0, 0, 0, 1)), nil)
		}, quota.Second, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRegion(t, true)
			c.play(r)
			if have := r.level(c.in); have != quota.Tokens(c.want)*quota.Token {
				t.Errorf("have %v, want %d; standing %+v", have, c.want, r.cur.StandingOf(key, r.now))
			}
		})
	}
}

// A record is dropped when it is full at the share that it was written at. A raise
// since then does not make it fuller than that.
func TestARecordThatIsDroppedAfterARaiseIsWorthWhatItWas(t *testing.T) {
	r := newRegion(t, true)
	r.adopt(config(1, doc(100, 1000, 0.2, 1)), nil) // 10 a second, 100 at most
	look := func() quota.Tokens {
		r.store.Sweep(r.now)
		_, v := r.store.Take(r.now, []bucket.Ask{{Key: key, Standing: r.cur.StandingOf(key, r.now)}})
		return v[0].Level
	}
	ask := bucket.Ask{Key: key, Cost: 100 * quota.Token, Standing: r.cur.StandingOf(key, r.now)}
	if admitted, _ := r.store.Take(r.now, []bucket.Ask{ask}); !admitted {
		t.Fatal("the bucket is not full")
	}
	r.now += quota.Second
	r.adopt(config(2, doc(100, 10_000, 0.2, 1)), r.cur) // 10 a second, 1000 at most
	var most quota.Tokens
	for in := range quota.Tokens(120) {
		if have := look(); have > (in+1)*10*quota.Token {
			t.Fatalf("after %d s it holds %v, and has gained 10 a second", in+1, have)
		} else {
			most = max(most, have)
		}
		r.now += quota.Second
	}
	if r.store.Len() != 0 || most < 1000*quota.Token {
		t.Errorf("%d records are left, and the most was %v: nothing was dropped, or nothing gained", r.store.Len(), most)
	}
}

// Whatever is adopted, and whenever the store loses its data, a bucket without a
// record never has more than one whose history is known.
func TestStandingNeverExceedsHistory(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRegion(t, true)
		var share quota.Capacity // what the oracle's bucket runs on
		var level quota.Tokens
		at, counted := r.now, false
		pass := func(d quota.Micros) {
			r.now += d
			var unspent quota.Micros
			level, unspent = share.Refill(level, r.now-at)
			at = r.now - unspent
		}
		version := uint64(0)
		var seen []*Adoption
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			pass(quota.Micros(rapid.Int64Range(0, 3_000_000).Draw(rt, "pass")))
			if version > 0 && rapid.IntRange(0, 5).Draw(rt, "lose") == 0 {
				r.store.Incarnate(r.now, fmt.Sprint("i", r.now))
				level, at = 0, r.now
				r.read()
			} else {
				version++
				c := config(version, doc(rapid.SampledFrom([]int{0, 5, 10, 40, 100}).Draw(rt, "rate"),
					rapid.SampledFrom([]int{10, 50, 100}).Draw(rt, "burst"), 0.5, rapid.IntRange(1, 2).Draw(rt, "other")),
					rapid.Int64Range(0, 3).Draw(rt, "weight"), 1)
				var after *Adoption
				if len(seen) > 0 {
					after = seen[len(seen)-1]
					if rapid.IntRange(0, 3).Draw(rt, "race") == 0 {
						after = rapid.SampledFrom(seen).Draw(rt, "after")
					}
				}
				r.adopt(c, after)
				_, l := r.cur.Set.LimitOf(key)
				was := counted
				counted = l != nil
				if counted {
					share = l.StandingShare("eu", r.cur.Shares)
					level = min(level, share.Burst)
					if !was && r.cur.first {
						level = share.Burst
					}
					if !was && !r.cur.first {
						// Nobody counted it, so it gained what there was to gain.
						level, _ = share.Refill(0, r.now-r.store.State(r.now).Since)
					}
				}
				at = r.now
			}
			seen = append(seen, r.cur)
			if !counted {
				continue
			}
			for _, in := range []quota.Micros{0, 1, 333_333, 2_000_000} {
				know, _ := share.Refill(level, r.now+in-at)
				if have := r.level(in); have > know+10 {
					rt.Fatalf("in %v: have %v, history allows %v; share %v, standing %+v", in.Duration(), have, know, share, r.cur.StandingOf(key, r.now))
				}
			}
			if full, ok := share.TimeTo(0, share.Burst); ok && r.level(full+quota.Second) != share.Burst {
				rt.Fatalf("not full after its time to full")
			}
		}
	})
}

func TestRecordOfAConfiguration(t *testing.T) {
	c := config(7, doc(100, 100, 0.2, 1))
	text, err := Encode(c, "eu", nil)
	if err != nil {
		t.Fatal(err)
	}
	have, err := Decode(text)
	if err != nil || fmt.Sprint(have) != fmt.Sprint(c) {
		t.Errorf("have %v, %v\nwant %v", have, err, c)
	}
	for name, bad := range map[string]string{
		"empty":          "",
		"not JSON":       "quorate",
		"another format": strings.Replace(string(text), `"format":1`, `"format":2`, 1),
		"an unknown key": strings.Replace(string(text), `"format":1`, `"format":1,"extra":1`, 1),
		"no version":     strings.Replace(string(text), `"version":7`, `"version":0`, 1),
		"cut":            string(text[:len(text)-2]),
		"more":           string(text) + "{}",
		"negative time":  strings.Replace(string(text), `"grown_us":0`, `"grown_us":-5`, 1),
	} {
		if _, err := Decode([]byte(bad)); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: have %v", name, err)
		}
	}
}

func TestAdoptRefusesWhatItCannotUse(t *testing.T) {
	good, err := Encode(config(2, doc(1, 1, 0, 1)), "eu", nil)
	if err != nil {
		t.Fatal(err)
	}
	badRules := []byte(`{"format":1,"version":2,"sources":[{"name":"a.yaml","text":"domain: [1]"}],"shares":[],"after":0,"grew":false,"grown_us":0}`)
	for name, c := range map[string]struct {
		cur, prev bucket.Adopted
		want      error
	}{
		"nothing adopted":            {want: ErrNotAdopted},
		"rules that do not parse":    {cur: bucket.Adopted{Version: 2, Blob: badRules}, want: ErrConfig},
		"another version inside":     {cur: bucket.Adopted{Version: 3, Blob: good}, want: ErrConfig},
		"the one before is unusable": {cur: bucket.Adopted{Version: 2, Blob: good}, prev: bucket.Adopted{Version: 1, Blob: badRules}, want: ErrConfig},
	} {
		if a, err := Adopt("eu", 0, bucket.State{}, c.cur, c.prev); !errors.Is(err, c.want) || a != nil {
			t.Errorf("%s: have %v, %v", name, a, err)
		}
	}
	if _, err := Encode(quota.Config{Version: 1, Sources: []quota.Source{{Text: "domain: [1]"}}}, "eu", nil); !errors.Is(err, ErrConfig) {
		t.Errorf("have %v", err)
	}
}

func BenchmarkStanding(b *testing.B) {
	r := newRegion(b, true)
	r.adopt(config(1, doc(100, 100, 0.2, 1)), nil)
	r.adopt(config(2, doc(200, 200, 0.2, 1)), r.cur)
	_, l := r.cur.Set.LimitOf(key)
	for name, now := range map[string]quota.Micros{"settled": r.now + 100*quota.Second, "after_an_edit": r.now} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r.cur.Standing(key, l, now)
			}
		})
	}
}

// A region that joins when the limit is in use already owns its share from then
// on, and no tokens of the time before.
func TestARegionThatJoinsLateBeginsEmpty(t *testing.T) {
	const now = 5000 * quota.Second
	late := bucket.State{Now: now, Since: 0, ConfigSince: now, Region: bucket.Region{Incarnation: "i", Config: 1}}
	late.Since = 10 * quota.Second // its store is old
	cfg := quota.Config{
		Version: 1,
		Sources: []quota.Source{{Name: "a.yaml", Text: "domain: a\ndescriptors:\n  - key: k\n    rate_limit: {unit: second, requests_per_unit: 100, quota: {standing_share: 0.5}}\n"}},
		Shares:  quota.Shares{{Region: "us", Weight: 1}},
	}
	blob, err := Encode(cfg, "us", nil)
	if err != nil {
		t.Fatal(err)
	}
	first := bucket.Adopted{Version: 1, Since: now, Blob: blob}
	a, err := Adopt("us", 0, late, first, bucket.Adopted{})
	if err != nil {
		t.Fatal(err)
	}
	if st := a.StandingOf("a|k=x", now); st.Base != 0 || st.Since != now || st.Burst != 50*quota.Token {
		t.Errorf("at once: have base %v since %v of %v, want none since the adoption", st.Base, st.Since, st.Capacity)
	}
	// An edit right after does not make up for it.
	cfg.Version = 2
	cfg.Sources = append(cfg.Sources, quota.Source{Name: "b.yaml", Text: "domain: b\n"})
	if blob, err = Encode(cfg, "us", a); err != nil {
		t.Fatal(err)
	}
	second := bucket.Adopted{Version: 2, Since: now + 1, Blob: blob}
	late.Config, late.ConfigSince, late.Prev, late.PrevSince = 2, now+1, 1, now
	if a, err = Adopt("us", 0, late, second, first); err != nil {
		t.Fatal(err)
	}
	if st := a.StandingOf("a|k=x", now+1); st.Base != 0 || st.Since != now {
		t.Errorf("after an edit: have base %v since %v, want 0 since %v", st.Base, st.Since, now)
	}
}
