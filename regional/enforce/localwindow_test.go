package enforce

import (
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
)

const slidingRules = `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: second, unit_multiplier: 10, requests_per_unit: 6, quota: {standing_share: 1, algorithm: sliding_window_log}}
  - key: count
    rate_limit: {unit: second, unit_multiplier: 10, requests_per_unit: 6, quota: {standing_share: 1, algorithm: sliding_window_counter}}
`

// Nobody but the store knows what is in use when it goes away, so nothing is admitted
// for a window; then each agent has its part of the share, in any window.
func TestLadderOfASlidingWindow(t *testing.T) {
	for _, user := range []string{"user=a", "count=a"} {
		w := newWorld(t, slidingRules)
		w.e.SetView(View{Region: w.store.State(w.time()).Region, Now: w.time(), Agents: 2})
		w.want("all of the share", false, w.decide(6, d(user)))
		w.fail = ErrStoreDown
		dec := w.want("the store is away", true, w.decide(1, d(user)))
		if s := dec.Statuses[0]; !dec.Degraded || s.Reason != StoreDegraded || s.Retry != 10*time.Second {
			t.Errorf("have %+v", s)
		}
		w.now += 10*time.Second - 1
		w.want("what was admitted before is in use", true, w.decide(1, d(user)))
		w.now++
		for i := range 4 {
			w.want("half of the share", i == 3, w.decide(1, d(user)))
		}
		w.now += 9 * time.Second
		w.want("for a window", true, w.decide(1, d(user)))
		w.now += 1200 * time.Millisecond
		w.want("and again", false, w.decide(2, d(user)))
		if w.e.Owing() != 1 {
			t.Fatalf("%d keys owe", w.e.Owing())
		}

		w.fail = nil
		w.settle()
		if w.e.Owing() != 0 || len(w.charged) == 0 || w.charged[len(w.charged)-1].Tokens != quota.Whole(3) {
			t.Errorf("charged %+v, want the 3 that may have been admitted in a window", w.charged)
		}
		dec = w.want("the rest of the share", false, w.decide(3, d(user)))
		w.want("and no more", true, w.decide(1, d(user)))
	}
}

// While the store is away a refund takes back what the agent has admitted last, and what
// is settled takes what is free of its part.
func TestLadderRefundsAndSettlesInASlidingWindow(t *testing.T) {
	w := newWorld(t, slidingRules)
	w.fail = ErrStoreDown
	w.want("the store is away", true, w.decide(1, d("user=a")))
	w.now += 10 * time.Second
	w.want("a window later all of the share", false, w.decide(5, d("user=a")))
	w.want("three of it are given back", false, w.decide(1, back("user=a", 3)))
	w.want("and no more than that is free", true, w.decide(5, d("user=a")))
	w.want("what is free", false, w.decide(2, d("user=a")))
	if s := w.afterwards(0, 7, d("user=a")).Statuses[0]; s.Uncharged != quota.Whole(5) {
		t.Errorf("settled beyond what is free: have %+v", s)
	}
	w.want("nothing is", true, w.decide(1, d("user=a")))
	w.fail = nil
	w.settle()
	if len(w.charged) != 1 || w.charged[0].Tokens != quota.Whole(6) {
		t.Errorf("charged %+v", w.charged)
	}
	w.want("and the store knows", true, w.decide(1, d("user=a")))
}

// What is settled in a sliding window is charged as if it were admitted now, as far as
// there is room; what an estimate was too high is free again at once.
func TestSettleInASlidingWindow(t *testing.T) {
	for _, user := range []string{"user=a", "count=a"} {
		w := newWorld(t, slidingRules)
		w.want("an estimate", false, w.decide(5, d(user)))
		if s := w.afterwards(5, 3, d(user)).Statuses[0]; s.Remaining != 3 || s.Uncharged != 0 {
			t.Errorf("two are given back: have %+v", s)
		}
		if s := w.afterwards(3, 8, d(user)).Statuses[0]; s.Remaining != 0 || s.Uncharged != quota.Whole(2) {
			t.Errorf("five more than estimated, of which three have room: have %+v", s)
		}
		w.want("all of it is in use", true, w.decide(1, d(user)))
		w.want("given back by whoever asks", false, w.decide(1, back(user, 1)))
		w.want("and used again", false, w.decide(1, d(user)))
		w.now += 9 * time.Second
		w.want("for a window", true, w.decide(6, d(user)))
	}
}

// A denial from memory holds for whoever asks for as much, until places are free.
func TestDenialsOfASlidingWindowAreRemembered(t *testing.T) {
	w := newWorld(t, slidingRules, remembering)
	w.want("2", false, w.decide(2, d("user=a")))
	w.now += 9960 * time.Millisecond
	w.want("4 are left", true, w.decide(5, d("user=a")))
	takes := w.takes
	dec := w.want("as much", true, w.decide(5, d("user=a")))
	if w.takes != takes || dec.Retry < 39*time.Millisecond || dec.Retry > 40*time.Millisecond {
		t.Errorf("have %d takes more, retry after %v", w.takes-takes, dec.Retry)
	}
	w.want("less is asked of the store", false, w.decide(1, d("user=a")))
	w.want("5 of 3", true, w.decide(5, d("user=a")))
	takes = w.takes
	w.now += 20 * time.Millisecond
	w.want("from memory", true, w.decide(6, d("user=a")))
	if w.takes != takes {
		t.Error("the store was asked")
	}
	w.now += 20 * time.Millisecond
	w.want("2 have moved on", false, w.decide(5, d("user=a")))
}
