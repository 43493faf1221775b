package redisbucket

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/redisbucket/redistest"
)

// What the data of a region can go through. In each story the store is at the
// end another incarnation: leases void, missing buckets no longer full, and the
// agent that saw it can name the old one.
func TestLostContinuityBeginsANewIncarnation(t *testing.T) {
	ctx := context.Background()
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		name   string
		happen func(t *testing.T, r *redistest.Server)
		config bool // the adopted configuration survives
	}{
		{"restart without data", func(t *testing.T, r *redistest.Server) { must(t, r.Restart(false)) }, false},
		{"restart with an older dump", func(t *testing.T, r *redistest.Server) { must(t, r.Restart(true)) }, true},
		{"emptied while connected", func(t *testing.T, r *redistest.Server) { _, err := r.Do("FLUSHALL"); must(t, err) }, false},
		{"fail-over and back: the same run_id, another master_replid", func(t *testing.T, r *redistest.Server) {
			other := redistest.Run(t)
			must(t, other.ReplicaOf(r))
			run, err := r.Do("INFO", "server")
			must(t, err)
			must(t, other.ReplicaOf(nil))
			must(t, r.ReplicaOf(other))
			must(t, r.ReplicaOf(nil))
			again, err := r.Do("INFO", "server")
			must(t, err)
			if id := parseInfo(run)["run_id"]; id == "" || id != parseInfo(again)["run_id"] {
				t.Fatal("the run_id changed: this is not the story")
			}
		}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := redistest.Run(t)
			s := openAt(t, r.URL(), func(c *Config) { c.CheckEvery = time.Millisecond })
			old := connected(t, s)
			must(t, s.MarkFirst(ctx, old.Incarnation))
			must(t, s.Adopt(ctx, old.Incarnation, 7, []byte("rules")))
			share := full(per(1, 86400*quota.Second, 10))
			a := quota.Assignment{Key: "k", Session: 5, Epoch: 1, Lease: per(10, 86400*quota.Second, 100), Credit: quota.Whole(90)}
			if _, err := s.Apply(ctx, old.Incarnation, []bucket.ApplyAsk{{Assignment: a, Standing: share}}); err != nil {
				t.Fatal(err)
			}
			old = state(t, s)
			if s.Replaced() != "" {
				t.Fatalf("nothing was replaced yet: have %q", s.Replaced())
			}
			must(t, r.Save())
			if res := take(t, s, of(old, ask("k", 80, share))); res.Verdicts[0].Holding != bucket.OnLease {
				t.Fatalf("want a lease, have %+v", res)
			}

			tc.happen(t, r)

			var st bucket.State
			eventually(t, 5*time.Second, "a state of another incarnation", func() bool {
				var err error
				st, err = s.State(ctx)
				return err == nil && st.Incarnation != old.Incarnation
			})
			if st.Session != 0 || st.Deadline != 0 || st.First {
				t.Errorf("want no session and not the first, have %+v", st)
			}
			if want := map[bool]uint64{true: 7}[tc.config]; st.Config != want {
				t.Errorf("configuration: want %d, have %d", want, st.Config)
			}
			if s.Replaced() != old.Incarnation {
				t.Errorf("replaced: want %s, have %s", old.Incarnation, s.Replaced())
			}
			if _, err := s.Take(ctx, of(old, ask("k", 1, share))); !errors.Is(err, enforce.ErrStale) {
				t.Errorf("a take in the old incarnation: want %v, have %v", enforce.ErrStale, err)
			}
			empty := bucket.Standing{Capacity: share.Capacity, Since: st.Since}
			if res := take(t, s, of(st, ask("k", 1, empty))); res.Admitted || res.Verdicts[0].Holding != bucket.OnStanding {
				t.Errorf("the bucket's record is void and its share starts empty: have %+v", res)
			}
			if _, err := s.Apply(ctx, old.Incarnation, []bucket.ApplyAsk{{Assignment: a, Standing: share}}); !errors.Is(err, enforce.ErrStale) {
				t.Errorf("an assignment to the old incarnation: want %v, have %v", enforce.ErrStale, err)
			}
			if err := s.Renew(ctx, old.Incarnation, 5, st.Now+quota.Second); !errors.Is(err, enforce.ErrStale) {
				t.Errorf("renewing in the old incarnation: want %v, have %v", enforce.ErrStale, err)
			}
		})
	}
}

func TestTheSameDataKeepsItsIncarnation(t *testing.T) {
	s := openAt(t, shared.URL(), func(c *Config) { c.CheckEvery = time.Nanosecond })
	first := state(t, s)
	other := openAt(t, shared.URL(), func(c *Config) { c.Prefix = s.cfg.Prefix })
	for range 5 {
		for _, agent := range []*Store{s, other} {
			if st := state(t, agent); st.Incarnation != first.Incarnation || st.Since != first.Since {
				t.Fatalf("want %+v, have %+v", first, st)
			}
		}
	}
	if s.Replaced() != "" || other.Replaced() != "" {
		t.Error("nothing was replaced")
	}
}

// The agent saw only the last of several lives with a session; it must name that
// one, not the short one in between that the coordinator never heard of.
func TestReplacedNamesTheIncarnationThatHadASession(t *testing.T) {
	s := openAt(t, shared.URL(), nil)
	for _, step := range []struct {
		id      string
		session bool
		want    string
	}{{"a", true, ""}, {"b", false, "a"}, {"c", false, "a"}, {"d", true, "a"}, {"e", false, "d"}} {
		if err := s.meet(step.id, step.session); err != nil || s.Replaced() != step.want {
			t.Fatalf("at %s: want %q replaced, have %q, %v", step.id, step.want, s.Replaced(), err)
		}
	}
	if err := s.meet("b", false); !errors.Is(err, errNotUsable) || !strings.Contains(err.Error(), "two servers") {
		t.Errorf("one that was replaced must not come back: have %v", err)
	}
}

func TestAReplicaIsRefused(t *testing.T) {
	a, b := redistest.Run(t), redistest.Run(t)
	if err := b.ReplicaOf(a); err != nil {
		t.Fatal(err)
	}
	s := openAt(t, b.URL(), nil)
	if _, err := s.State(context.Background()); !errors.Is(err, errNotUsable) || !errors.Is(err, enforce.ErrStoreDown) {
		t.Errorf("want a refusal, have %v", err)
	}
}

func TestUsable(t *testing.T) {
	good := "role:master\r\nredis_version:7.0.15\r\nrun_id:a\r\nmaster_replid:b\r\n"
	for _, tc := range []struct {
		name, info, want string
	}{
		{"a primary", good, ""},
		{"a replica", strings.Replace(good, "master\r", "slave\r", 1), "role"},
		{"too old for shebangs", strings.Replace(good, "7.0.15", "6.2.1", 1), "7.0 or later"},
		{"a proxy that hides run_id", strings.Replace(good, "run_id:a\r\n", "", 1), "no run_id"},
	} {
		err := usable(parseInfo(tc.info))
		if tc.want == "" && err != nil || tc.want != "" && (!errors.Is(err, errNotUsable) || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: want %q, have %v", tc.name, tc.want, err)
		}
	}
}
