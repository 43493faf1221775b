package bucket

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/coordinator/quota"
)

// give gives places back.
func (s *Store) give(now quota.Micros, n int64, st Standing) Verdict {
	_, v := s.Take(now, []Ask{{Key: "k", Cost: quota.Tokens(-n) * quota.Token, Standing: st}})
	return v[0]
}

func TestARefundTakesBackTheYoungestAdmissions(t *testing.T) {
	s, st := newSliding(t), places(LogWindow, 10)
	s.ask(start, 4, st)
	s.ask(start+10*quota.Second, 3, st)
	s.ask(start+20*quota.Second, 2, st)
	for _, tt := range []struct {
		reason string
		after  quota.Micros
		back   int64
		level  string
		full   quota.Micros
	}{
		{"a part of the youngest", 20 * quota.Second, 1, "2", minute},
		{"the rest of it and a part of the one before", 30 * quota.Second, 2, "4", 40 * quota.Second},
		{"the oldest leaves in its time", minute, 0, "8", 10 * quota.Second},
		{"not more than there are", minute, 50, "10", 0},
	} {
		v := s.give(start+tt.after, tt.back, st)
		if !v.Admitted || v.Level.String() != tt.level {
			t.Errorf("%s: have %v with %v left, want %s", tt.reason, v.Admitted, v.Level, tt.level)
		}
		if _, v := s.ask(start+tt.after, 0, st); v.Full != tt.full || v.Level.String() != tt.level {
			t.Errorf("%s: then %v left and free in %d us, want %s and %d", tt.reason, v.Level, v.Full, tt.level, tt.full)
		}
	}
	if log := s.Places("k").Log; len(log) != 0 {
		t.Errorf("all is given back, and %v is there", log)
	}
}

// What a counter has of the window before is not known apart any more.
func TestACounterIsGivenBackWhatItsPresentWindowHas(t *testing.T) {
	s, st := newSliding(t), places(CounterWindow, 10)
	begin := start - start%minute + minute
	s.ask(begin, 5, st)
	next := begin + minute + 12*quota.Second // a fifth of it has passed
	s.ask(next, 3, st)
	if v := s.give(next, 1, st); v.Level != quota.Whole(4) {
		t.Errorf("have %v left, want 4", v.Level)
	}
	if v := s.give(next, 50, st); v.Level != quota.Whole(6) {
		t.Errorf("have %v left, want 6: four of the window before still count", v.Level)
	}
	if c := s.Places("k").Count; c.Prev != quota.Whole(5) || c.Cur != 0 {
		t.Errorf("have %+v", c)
	}
}

func TestRefundsToAWindowThatChangeNothing(t *testing.T) {
	for _, kind := range []Window{LogWindow, CounterWindow} {
		s, st := newSliding(t), places(kind, 10)
		late := st
		late.Base, late.Since = 0, start
		if v := s.give(start, 5, late); v.Level != 0 || len(s.records) != 0 {
			t.Errorf("a missing record: have %v left and %d records", v.Level, len(s.records))
		}
		s.ask(start, 4, st)
		denied := Ask{Key: "k", Cost: -quota.Token, Standing: st, Mode: ModeDeny}
		later := start + 3601*quota.Second // without a session
		s.Take(later, []Ask{{Key: "k", Cost: quota.Whole(4), Standing: st}})
		if _, v := s.Take(later, []Ask{denied}); v[0].Level != quota.Whole(6) {
			t.Errorf("what denies everything takes nothing back: have %v left", v[0].Level)
		}
	}
}

// What is settled takes the places that are free, as if it were admitted now.
func TestSettlingInAWindow(t *testing.T) {
	for _, kind := range []Window{LogWindow, CounterWindow} {
		s, st := newSliding(t), places(kind, 10)
		now := start - start%minute + minute
		settle := func(cost uint64, level, uncharged string) {
			t.Helper()
			ok, v := s.Take(now, []Ask{{Key: "k", Cost: quota.Whole(cost), Standing: st, Settle: true}})
			if !ok || v[0].Level.String() != level || v[0].Uncharged.String() != uncharged {
				t.Errorf("settle %d: have %v with %v left and %v uncharged, want %s and %s", cost, ok, v[0].Level, v[0].Uncharged, level, uncharged)
			}
		}
		settle(7, "3", "0")
		settle(5, "0", "2")
		settle(1, "0", "1")
		st.Burst, st.Base = quota.Whole(4), quota.Whole(4) // the share has become smaller
		settle(1, "-6", "1")
		now += minute - 1
		if ok, _ := s.ask(now, 1, st); ok {
			t.Error("what was settled is free before its window is over")
		}
	}
}

func TestAWindowHasNoDebt(t *testing.T) {
	ask := Ask{Key: "k", Debt: 1, Standing: places(LogWindow, 10)}
	if err := ask.Valid(); !errors.Is(err, ErrRange) {
		t.Errorf("a debt: have %v, want %v", err, ErrRange)
	}
	ask.Debt, ask.Standing.Lasts = 0, 1
	if err := ask.Valid(); !errors.Is(err, ErrRange) {
		t.Errorf("a record that lasts: have %v, want %v", err, ErrRange)
	}
}

// Whatever is taken, settled and given back: in any window what is charged less what is
// given back, each when it happens, is at most what the window says.
func TestNetBoundOfAWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]Window{LogWindow, CounterWindow}).Draw(t, "kind")
		s, st := NewStore(), places(kind, 10)
		s.Incarnate(start, "one")
		most := st.Burst
		if kind == CounterWindow {
			most = quota.Tokens(math.Ceil(math.E * float64(most)))
		}
		type event struct {
			at  quota.Micros
			net quota.Tokens
		}
		var events []event
		now := start
		for range rapid.IntRange(1, 60).Draw(t, "asks") {
			now += quota.Second * quota.Micros(rapid.IntRange(0, 25).Draw(t, "wait"))
			a := Ask{Key: "k", Standing: st, Cost: quota.Tokens(rapid.IntRange(-6, 6).Draw(t, "cost")) * quota.Token, Settle: rapid.Bool().Draw(t, "settle")}
			_, before := s.ask(now, 0, st)
			ok, v := s.Take(now, []Ask{a})
			if _, after := s.ask(now, 0, st); after.Level != v[0].Level {
				t.Fatalf("%+v was told %v, and the next one %v", a, v[0].Level, after.Level)
			}
			net := before.Level - v[0].Level
			if want := a.Cost - v[0].Uncharged; ok && a.Cost > 0 && net != want || !ok && net != 0 || net < min(a.Cost, 0) {
				t.Fatalf("%+v: admitted %v, %v uncharged, and the level went by %v", a, ok, v[0].Uncharged, -net)
			}
			events = append(events, event{now, net})
			sum := quota.Tokens(0)
			for i := len(events) - 1; i >= 0 && events[i].at > now-minute; i-- {
				if sum += events[i].net; sum > most {
					t.Fatalf("%v from %v on, want at most %v", sum, now-events[i].at, most)
				}
			}
		}
	})
}

func TestOwnIsGivenBackWhatItAdmittedLast(t *testing.T) {
	var o Own
	left := func(now quota.Micros) quota.Tokens { return o.Balance(now, minute, quota.Whole(10), 0).Level }
	o.Admit(start, minute, quota.Whole(6))
	o.Admit(start+20*quota.Second, minute, quota.Whole(3))
	o.Refund(start+30*quota.Second, minute, quota.Whole(4))
	if have := left(start + 30*quota.Second); have != quota.Whole(5) {
		t.Errorf("have %v left, want 5", have)
	}
	if have := left(start + minute + 2*quota.Second); have != quota.Whole(10) {
		t.Errorf("what is left has left: have %v, want 10", have)
	}
	o.Refund(start+2*minute, minute, quota.Whole(4))
	if have := left(start + 2*minute); have != quota.Whole(10) {
		t.Errorf("there is nothing: have %v, want 10", have)
	}
}
