package regional

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/regional/caller"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/httplimit"
	"github.com/quorate/quorate/regional/memory"
)

func TestAllowAndReserveTellTheDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := alone(t)
		l := limiter(t, a, "smooth", "1") // 10 a second, burst 5
		began := time.Now()
		for i, want := range []time.Duration{0, 100 * time.Millisecond} {
			if d, err := l.Allow(t.Context()); err != nil || d.Over || d.Delay != want {
				t.Errorf("allow %d: want a delay of %v, have %+v, %v", i+1, want, d, err)
			}
		}
		// A deadline is no MaxDelay here: what to do with the delay is the caller's business.
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		for _, c := range []struct {
			why  string
			n    int
			ok   bool
			want time.Duration
		}{
			{"admitted", 2, true, 200 * time.Millisecond},
			{"behind both", 1, true, 400 * time.Millisecond},
			{"no tokens", 1, false, 100 * time.Millisecond},
			{"above the burst", 6, false, InfDuration},
		} {
			if r, err := l.ReserveN(short, c.n); err != nil || r.OK() != c.ok || r.Delay() != c.want {
				t.Errorf("%s: want %v after %v, have %v after %v, %v", c.why, c.ok, c.want, r.OK(), r.Delay(), err)
			}
		}
		if time.Since(began) != 0 {
			t.Errorf("waited %v", time.Since(began))
		}
	})
}

func TestWaitIsHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := alone(t)
		perUser, err := NewKeyed(a, "shop", func(to []Entry, user string) []Entry { return append(to, Entry{Key: "smooth", Value: user}) })
		if err != nil {
			t.Fatal(err)
		}
		l := limiter(t, a, "smooth", "1")
		began := time.Now()
		left := make(chan time.Duration)
		for i := range 8 { // three more than the burst, which wait for tokens first
			go func() {
				var err error
				if i%2 == 0 {
					err = l.Wait(t.Context())
				} else {
					err = perUser.Wait(t.Context(), "1")
				}
				if err != nil {
					t.Error(err)
				}
				left <- time.Since(began)
			}()
			synctest.Wait()
		}
		for i := range 8 {
			if have, want := <-left, time.Duration(i)*100*time.Millisecond; have != want {
				t.Errorf("number %d leaves after %v, want %v", i+1, have, want)
			}
		}
	})
}

func TestWaitWhoseTurnIsTooLateTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, alone(t), "smooth", "1")
		within := func(d time.Duration, n int) (time.Duration, error) {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			began := time.Now()
			err := l.WaitN(ctx, n)
			return time.Since(began), err
		}
		if _, err := l.AllowN(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		for why, c := range map[string]struct {
			most time.Duration
			n    int
		}{
			"the turn comes in 300 ms":                       {299 * time.Millisecond, 1},
			"no tokens before 100 ms, and no turn in 150 ms": {150 * time.Millisecond, 3},
		} {
			var denied *DeniedError
			took, err := within(c.most, c.n)
			if took != 0 || !errors.Is(err, ErrDeadline) || !errors.As(err, &denied) || denied.Decision.Statuses[0].Reason != enforce.DelayTooLong {
				t.Errorf("%s: have %v after %v", why, err, took)
			}
		}
		if took, err := within(300*time.Millisecond, 1); err != nil || took != 300*time.Millisecond {
			t.Errorf("a deadline that suffices, with nothing taken before: have %v after %v", err, took)
		}
	})
}

// Who gives up while held back has paid.
func TestWaitThatIsGivenUpWhileHeldBackHasPaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, alone(t), "smooth", "1")
		if _, err := l.AllowN(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error)
		go func() { failed <- l.Wait(ctx) }()
		synctest.Wait()
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("have %v", err)
		}
		if d, err := l.Allow(t.Context()); err != nil || d.Delay != 300*time.Millisecond {
			t.Errorf("have %+v, %v", d, err)
		}
	})
}

// rushed is a store where others are admitted after each look.
type rushed struct {
	*memory.Store
	others func()
}

func (r *rushed) Take(ctx context.Context, t enforce.Take) (enforce.TakeResult, error) {
	res, err := r.Store.Take(ctx, t)
	if t.Asks[0].Cost == 0 {
		r.others()
	}
	return res, err
}

func TestWaitBehindOthersThatCameBetweenLookAndCharge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := memory.WithRules("here", ownDoc)
		if err != nil {
			t.Fatal(err)
		}
		r := &rushed{Store: store}
		l := limiter(t, aloneOn(t, r), "smooth", "1")
		r.others = func() {
			if d, err := l.AllowN(t.Context(), 3); err != nil || d.Over {
				t.Errorf("the others: have %+v, %v", d, err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		began := time.Now()
		var denied *DeniedError
		if err := l.Wait(ctx); !errors.Is(err, ErrDeadline) || errors.As(err, &denied) || time.Since(began) != 0 {
			t.Errorf("have %v after %v", err, time.Since(began))
		}
		if d, err := l.Allow(t.Context()); err != nil || d.Delay != 400*time.Millisecond {
			t.Errorf("it has paid: have %+v, %v", d, err)
		}
	})
}

// Behind the middleware requests leave a shaped limit one after the other, and those
// that would be held back too long are denied and take nobody's place.
func TestMiddlewareLetsRequestsLeaveAtTheRate(t *testing.T) {
	for why, c := range map[string]struct {
		most time.Duration
		want []string // in the order of arrival
	}{
		"all of the burst":       {0, []string{"200 0s", "200 100ms", "200 200ms", "200 300ms", "200 400ms", "429 0s"}},
		"as long as they may":    {200 * time.Millisecond, []string{"200 0s", "200 100ms", "200 200ms", "429 0s", "429 0s", "429 0s"}},
		"no longer than a blink": {time.Millisecond, []string{"200 0s", "429 0s", "429 0s", "429 0s", "429 0s", "429 0s"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			mw, err := httplimit.New(httplimit.Config{
				Decide: alone(t).Decide, Domain: "shop", Descriptors: [][]httplimit.Key{{httplimit.Value("smooth", "1")}},
				OnFailure: caller.Deny, MaxDelay: c.most,
			})
			if err != nil {
				t.Fatal(err)
			}
			h := mw(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			began, have := time.Now(), make([]string, len(c.want))
			var wg sync.WaitGroup
			for i := range have {
				wg.Go(func() {
					w := httptest.NewRecorder()
					h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil).WithContext(t.Context()))
					have[i] = fmt.Sprint(w.Code, " ", time.Since(began))
				})
				synctest.Wait()
			}
			wg.Wait()
			if !slices.Equal(have, c.want) {
				t.Errorf("%s: want %q, have %q", why, c.want, have)
			}
		})
	}
}
