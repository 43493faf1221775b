package bucket

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/coordinator/quota"
)

// places is a standing share of a sliding window of a minute, all of it known to be
// free.
func places(kind Window, n uint64) Standing {
	return Standing{Capacity: quota.Capacity{Rate: quota.Rate{Per: minute}, Burst: quota.Whole(n)}, Base: quota.Whole(n), Window: kind}
}

// newSliding returns a store with a live session 1.
func newSliding(t testing.TB) *Store {
	s := NewStore()
	s.Incarnate(start, "one")
	if err := s.Renew(start, "one", 1, start+3600*quota.Second); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *Store) ask(now quota.Micros, cost uint64, st Standing) (bool, Verdict) {
	ok, v := s.Take(now, []Ask{{Key: "k", Cost: quota.Whole(cost), Standing: st}})
	return ok, v[0]
}

func (s *Store) lease(t testing.TB, now quota.Micros, epoch quota.Epoch, n uint64, release bool, st Standing) (surrendered quota.Tokens) {
	t.Helper()
	a := quota.Assignment{Key: "k", Session: 1, Epoch: epoch, Release: release, Lease: quota.Capacity{Rate: quota.Rate{Per: minute}, Burst: quota.Whole(n)}}
	answer, err := s.Apply(now, "one", ApplyAsk{Assignment: a, Standing: st})
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.Apply(now, "one", ApplyAsk{Assignment: a, Standing: st})
	if err != nil || again != answer {
		t.Errorf("a repeat: have %+v, %v, want %+v", again, err, answer)
	}
	return answer.Surrendered
}

func TestALeaseGivesUpWhatIsNotOccupied(t *testing.T) {
	s, st := newSliding(t), places(LogWindow, 2)
	s.lease(t, start, 1, 10, false, st)
	if ok, v := s.ask(start, 7, st); !ok || v.Level != quota.Whole(3) || v.Holding != OnLease {
		t.Fatalf("have %v %+v", ok, v)
	}
	if have := s.lease(t, start+quota.Second, 2, 4, false, st); have != quota.Whole(3) {
		t.Errorf("7 of 10 are occupied: surrendered %v, want 3", have)
	}
	if ok, v := s.ask(start+quota.Second, 1, st); ok || v.Level != -quota.Whole(3) || v.Capacity.Burst != quota.Whole(4) || v.Retry != 59*quota.Second {
		t.Errorf("it admits by the new lease: have %v %+v", ok, v)
	}
	if have := s.lease(t, start+2*quota.Second, 3, 4, false, st); have != 0 {
		t.Errorf("nothing has moved on: surrendered %v", have)
	}
	if have := s.lease(t, start+2*quota.Second, 4, 2, true, st); have != 0 {
		t.Errorf("a lease that is occupied is not released: surrendered %v", have)
	}
	if rec, _ := s.Read("k"); rec.Released || rec.Lease.Burst != quota.Whole(7) || rec.Aim != quota.Whole(2) {
		t.Errorf("have %+v", rec)
	}
	if have := s.lease(t, start+minute, 5, 2, true, st); have != quota.Whole(5) {
		t.Errorf("all has moved on: surrendered %v, want 5", have)
	}
	if ok, v := s.ask(start+minute, 2, st); !ok || v.Holding != OnStanding {
		t.Errorf("on the share: have %v %+v", ok, v)
	}
}

// A release that had to leave a lease may have ended it for the ledger, where the share
// has shrunk since the ledger knew what is occupied (seed 14144). So the region admits by
// no more than its share from then on, and by no more than it was told where that grows.
func TestWhatAReleaseLeavesAdmitsByTheShare(t *testing.T) {
	for _, c := range []struct {
		release bool
		share   uint64 // from then on
		want    uint64 // that it admits by
	}{{true, 3, 3}, {true, 9, 4}, {true, 0, 0}, {false, 3, 4}} {
		s := newSliding(t)
		s.lease(t, start, 1, 10, false, places(LogWindow, 4))
		if ok, _ := s.ask(start, 8, places(LogWindow, 4)); !ok {
			t.Fatal("8 of 10 are not admitted")
		}
		if have := s.lease(t, start+quota.Second, 2, 4, c.release, places(LogWindow, 4)); have != quota.Whole(2) {
			t.Errorf("%+v: surrendered %v, want 2", c, have)
		}
		if _, v := s.ask(start+minute, 0, places(LogWindow, c.share)); v.Level != quota.Whole(c.want) {
			t.Errorf("%+v: a window later it has %v", c, v.Level)
		}
	}
}

// The same places are occupied whatever the region runs on.
func TestASessionThatEndsFreesNothing(t *testing.T) {
	for _, kind := range []Window{LogWindow, CounterWindow} {
		s, st := newSliding(t), places(kind, 2)
		s.lease(t, start, 1, 10, false, st)
		s.ask(start, 7, st)
		s.Drop(1)
		if ok, v := s.ask(start+quota.Second, 1, st); ok || v.Holding != OnStanding || v.Level > -quota.Whole(4) {
			t.Errorf("kind %d on the share: have %v %+v", kind, ok, v)
		}
		if err := s.Renew(start, "one", 2, start+3600*quota.Second); err != nil {
			t.Fatal(err)
		}
		a := quota.Assignment{Key: "k", Session: 2, Epoch: 1, Lease: quota.Capacity{Rate: quota.Rate{Per: minute}, Burst: quota.Whole(8)}}
		if _, err := s.Apply(start+quota.Second, "one", ApplyAsk{Assignment: a, Standing: st}); err != nil {
			t.Fatal(err)
		}
		if ok, _ := s.ask(start+quota.Second, 2, st); ok {
			t.Errorf("kind %d: a new lease of 8 has 2 beside the 7 that are occupied", kind)
		}
	}
}

// What nothing is known of counts as occupied for a window, and a lease that comes
// meanwhile remembers it.
func TestALostLogCountsAsOccupied(t *testing.T) {
	for _, first := range []string{"take", "lease", "charge"} {
		s, st := newSliding(t), places(LogWindow, 4)
		st.Base, st.Since = quota.Whole(1), start
		switch first {
		case "take":
			s.ask(start+quota.Second, 1, st)
		case "lease":
			s.lease(t, start+quota.Second, 1, 6, false, st)
			s.ask(start+quota.Second, 3, st)
		case "charge":
			if err := s.Charge(start+quota.Second, "one", []Charge{{Key: "k", Tokens: quota.Token, Standing: st}}); err != nil {
				t.Fatal(err)
			}
		}
		known := st
		known.Base, known.Since = st.Burst, 0 // what an agent says that has no need to know
		if ok, v := s.ask(start+minute-1, 1, known); ok || v.Level != 0 {
			t.Errorf("%s first: have %v %+v a moment before", first, ok, v)
		}
		if ok, _ := s.ask(start+minute, 3, known); !ok {
			t.Errorf("%s first: nothing is free a window after the loss", first)
		}
	}
}

func TestALeaseIsAppliedByTheConfigurationInForce(t *testing.T) {
	s := newSliding(t)
	if err := s.Adopt(start, "one", 7, []byte("seven")); err != nil {
		t.Fatal(err)
	}
	st := places(LogWindow, 4)
	for _, tt := range []struct {
		config uint64
		want   error
	}{{6, ErrOldConfig}, {8, ErrOldConfig}, {7, nil}} {
		st.Config = tt.config
		a := quota.Assignment{Key: "k", Session: 1, Epoch: 1, Lease: quota.Capacity{Rate: quota.Rate{Per: minute}, Burst: quota.Whole(5)}}
		if _, err := s.Apply(start, "one", ApplyAsk{Assignment: a, Standing: st}); !errors.Is(err, tt.want) {
			t.Errorf("configuration %d: have %v, want %v", tt.config, err, tt.want)
		}
	}
}

// Whatever is asked for and leased, no window has more than the largest lease (the log)
// or e times that (the counter), and the log denies nothing that its capacity has room
// for.
func TestNoWindowHasMoreThanItsLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]Window{LogWindow, CounterWindow}).Draw(t, "kind")
		s, st := NewStore(), places(kind, 10)
		s.Incarnate(start, "one")
		type event struct {
			at   quota.Micros
			cost quota.Tokens
		}
		var admitted []event
		now := start
		for range rapid.IntRange(1, 80).Draw(t, "asks") {
			now += quota.Second * quota.Micros(rapid.IntRange(0, 12).Draw(t, "wait"))
			cost := rapid.Uint64Range(1, 6).Draw(t, "cost")
			inside := quota.Tokens(0)
			for _, e := range admitted {
				if e.at > now-minute {
					inside += e.cost
				}
			}
			ok, _ := s.ask(now, cost, st)
			if fits := inside+quota.Whole(cost) <= st.Burst; kind == LogWindow && ok != fits {
				t.Fatalf("%d beside %v: have %v", cost, inside, ok)
			}
			if ok {
				admitted = append(admitted, event{now, quota.Whole(cost)})
			}
			if ok && inside+quota.Whole(cost) > 2*st.Burst {
				t.Fatalf("%v in one window of a region, which is more than twice the limit", inside+quota.Whole(cost))
			}
		}
	})
}

func TestOwnAdmitsItsPartInAnyWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var o Own
		length := quota.Micros(rapid.IntRange(1, 5000).Draw(t, "window"))
		var times []quota.Micros
		now := quota.Micros(rapid.IntRange(0, 10_000).Draw(t, "start"))
		for range rapid.IntRange(1, 200).Draw(t, "asks") {
			now += quota.Micros(rapid.IntRange(0, int(length)/20+1).Draw(t, "wait"))
			if b := o.Balance(now, length, quota.Whole(7), quota.Token); b.Level >= quota.Token {
				o.Admit(now, length, quota.Token)
				times = append(times, now)
				if n := len(times); n > 7 && now-times[n-8] < length {
					t.Fatalf("eight within %v: %v", now-times[n-8], times)
				}
			}
			if len(o.log) > parts+2 {
				t.Fatalf("it remembers %d times", len(o.log))
			}
		}
	})
}
