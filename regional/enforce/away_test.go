package enforce

import (
	"errors"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
)

// awayWorld is a world whose shares may be lent for a minute.
func awayWorld(t *testing.T) *world {
	return newWorld(t, ladderRules, func(c *Config) { c.Loan = time.Minute })
}

// know tells the enforcer what its store says of loans now: for how long the shares
// of users are away, and for how long any may be.
func (w *world) know(all time.Duration, users map[string]time.Duration) {
	l := Lent{At: w.now, Now: w.time(), Until: map[quota.Key]quota.Micros{}}
	for u, left := range users {
		l.Until[key(w, d("user="+u))] = w.time() + quota.MicrosOf(left)
	}
	if all > 0 {
		l.All = w.time() + quota.MicrosOf(all)
	}
	w.e.SetLent(l)
}

// admitted asks for tokens of a user, one at a time, until one is denied.
func (w *world) admitted(user string) int {
	w.t.Helper()
	for n := range 100 {
		if w.decide(1, d("user="+user)).Over {
			return n
		}
	}
	w.t.Fatalf("user %s is admitted without end", user)
	return 0
}

// glimpse is how much of a user is admitted some time after the outage began.
type glimpse struct {
	reason string
	after  time.Duration
	user   string
	want   int
}

// see makes the glimpses in order; each user accrues 10 a second up to 10.
func (w *world) see(all []glimpse) {
	w.t.Helper()
	began := w.now
	for _, g := range all {
		w.now = began + g.after
		if have := w.admitted(g.user); have != g.want {
			w.t.Errorf("%s, after %v: have %d of %s, want %d", g.reason, g.after, have, g.user, g.want)
		}
	}
}

// lose loses the store with the next request.
func (w *world) lose() {
	w.t.Helper()
	w.fail = ErrStoreDown
	w.want("the outage begins: empty", true, w.decide(1, d("user=first")))
}

func TestALentShareIsNotServedFromMemory(t *testing.T) {
	w := awayWorld(t)
	w.know(0, map[string]time.Duration{"lent": 20 * time.Second, "over": 0})
	w.now += time.Second
	w.lose()
	w.see([]glimpse{
		{"at once", 0, "lent", 0},
		{"other keys begin at once", 100 * time.Millisecond, "other", 1},
		{"a loan that was over when the store was asked is none", 200 * time.Millisecond, "over", 2},
		{"still lent", 10 * time.Second, "lent", 0},
		{"still others", 10 * time.Second, "other", 10},
		{"the last moment", 19*time.Second - time.Microsecond, "lent", 0},
		{"back, empty", 19 * time.Second, "lent", 0},
		{"accrues from then on", 19*time.Second + 300*time.Millisecond, "lent", 3},
		{"to its burst", 30 * time.Second, "lent", 10},
	})
}

func TestADenialOfALentShareIsHonest(t *testing.T) {
	w := awayWorld(t)
	w.know(0, map[string]time.Duration{"lent": 20 * time.Second})
	w.lose()
	w.now += time.Second
	dec := w.want("lent", true, w.decide(1, d("user=lent")))
	if s := dec.Statuses[0]; !dec.Degraded || s.Reason != StoreDegraded || s.Source != FromNobody || s.Retry != time.Second {
		t.Errorf("have %+v, want degraded, from nobody, and no more promised than a guess", s)
	}
	if w.e.Owing() != 0 {
		t.Errorf("%d debts of what was not admitted", w.e.Owing())
	}
}

// Knowledge that was old when the store was lost says nothing of what was lent
// after it: for the length of a loan any share may be away.
func TestOldKnowledgeIsNoKnowledge(t *testing.T) {
	for _, tc := range []struct {
		reason string
		age    time.Duration
		told   bool
		blind  bool
	}{
		{"just read", 0, true, false},
		{"read lately", knownFor.Duration(), true, false},
		{"read too long ago", knownFor.Duration() + time.Microsecond, true, true},
		{"read long ago", time.Hour, true, true},
		{"never", 0, false, true},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			w := awayWorld(t)
			if tc.told {
				w.know(0, nil)
				w.now += tc.age
			}
			w.lose()
			if !tc.blind {
				w.see([]glimpse{{tc.reason, 100 * time.Millisecond, "a", 1}})
				return
			}
			w.see([]glimpse{
				{tc.reason, 100 * time.Millisecond, "a", 0},
				{tc.reason, time.Minute, "a", 0},
				{tc.reason, time.Minute + 100*time.Millisecond, "a", 1},
				{tc.reason, 2 * time.Minute, "b", 10},
			})
		})
	}
}

// A share that is lent for longer than nothing is known stays away.
func TestALoanOutlastsTheTimeOfNotKnowing(t *testing.T) {
	w := awayWorld(t)
	w.know(0, map[string]time.Duration{"lent": 100 * time.Second, "brief": 20 * time.Second})
	w.now += 10 * time.Second
	w.lose()
	w.see([]glimpse{
		{"may have been lent again", 20 * time.Second, "brief", 0},
		{"others", time.Minute + 100*time.Millisecond, "other", 1},
		{"lent", 90 * time.Second, "lent", 0},
		{"back", 90*time.Second + 200*time.Millisecond, "lent", 2},
	})
}

// An outage is as old as the first poll that failed, also where nobody asks: what is
// known then counts, not how old it is at the first request.
func TestAnOutageBeginsThoughNobodyAsks(t *testing.T) {
	for _, tc := range []struct {
		reason string
		polls  []time.Duration // when the store did not answer, after it last did
		want   []glimpse
	}{
		{"no poll: the first request finds old knowledge", nil, []glimpse{
			{"at once", 0, "a", 0}, {"for a minute", time.Minute, "a", 0}, {"then", time.Minute + 100*time.Millisecond, "a", 1},
		}},
		{"a poll in time: accrued since", []time.Duration{time.Second}, []glimpse{
			{"at once", 0, "a", 10}, {"but for what is lent", 0, "lent", 0}, {"till it is back", 11 * time.Second, "lent", 10},
		}},
		{"only the first counts", []time.Duration{time.Second, 20 * time.Second, 29 * time.Second}, []glimpse{{"at once", 0, "a", 10}}},
		{"a poll too late: a minute from then", []time.Duration{10 * time.Second}, []glimpse{
			{"at once", 0, "a", 0}, {"the last moment", 40 * time.Second, "a", 0}, {"then", 40*time.Second + 100*time.Millisecond, "a", 1},
		}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			w := awayWorld(t)
			w.know(0, map[string]time.Duration{"lent": 40 * time.Second})
			asked := w.now
			for _, after := range tc.polls {
				w.e.Lost(asked + after)
			}
			w.now, w.fail = asked+30*time.Second, ErrStoreDown
			w.see(tc.want)
		})
	}
}

func TestAStoreThatHasForgottenItsLoans(t *testing.T) {
	w := awayWorld(t)
	w.know(20*time.Second, map[string]time.Duration{"long": 30 * time.Second, "short": 10 * time.Second})
	w.lose()
	w.see([]glimpse{
		{"any may be lent, also one that is known to be back", 15 * time.Second, "short", 0},
		{"any other", 15 * time.Second, "a", 0},
		{"the last moment", 20 * time.Second, "a", 0},
		{"all are over", 20*time.Second + 100*time.Millisecond, "a", 1},
		{"but the one that is known to be longer", 25 * time.Second, "long", 0},
		{"and short", 25 * time.Second, "short", 10},
		{"until then", 30*time.Second + 200*time.Millisecond, "long", 2},
	})

	w = awayWorld(t)
	w.know(20*time.Second, nil)
	w.know(0, nil) // it was told
	w.lose()
	w.see([]glimpse{{"the store knows that nothing is lent", 100 * time.Millisecond, "a", 1}})
}

// After an outage with old knowledge the store was asked again, so the next outage
// has nothing to wait for.
func TestTheNextOutageKnowsAgain(t *testing.T) {
	w := awayWorld(t)
	w.know(0, nil)
	w.now += 10 * time.Second
	w.lose()
	w.see([]glimpse{{"blind", 2 * time.Second, "a", 0}})
	w.fail = nil
	w.know(0, map[string]time.Duration{"lent": 20 * time.Second})
	w.settle()
	w.now += time.Second
	w.lose()
	w.see([]glimpse{{"known", 100 * time.Millisecond, "a", 1}, {"known to be lent", time.Second, "lent", 0}})
}

// A key with a debt that could not be settled before its share was lent begins again
// empty too: what accrued in memory before was surrendered by the store.
func TestADebtorsShareBeginsAgainEmpty(t *testing.T) {
	w := awayWorld(t)
	w.know(0, nil)
	w.lose()
	w.now += time.Second
	w.want("one of ten", false, w.decide(1, d("user=a")))
	w.know(0, map[string]time.Duration{"a": 20 * time.Second})
	if err := w.e.Settle(t.Context()); !errors.Is(err, ErrStoreDown) || w.e.Owing() != 1 {
		t.Fatalf("have %v, %d owing", err, w.e.Owing())
	}
	w.see([]glimpse{
		{"lent", time.Second, "a", 0},
		{"back", 20 * time.Second, "a", 0},
		{"accrues", 20*time.Second + 100*time.Millisecond, "a", 1},
	})
}
