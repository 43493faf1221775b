package regional

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
)

// A reservation of an estimate is settled at what it has cost; the level tells.
func TestReservationsAreSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := alone(t)
		l := limiter(t, a, "model", "1")
		k, err := NewKeyed(a, "shop", func(to []Entry, user string) []Entry { return append(to, Entry{Key: "model", Value: user}) })
		if err != nil {
			t.Fatal(err)
		}
		reserve := map[string]func(n int) (Reservation, error){
			"Limiter": func(n int) (Reservation, error) { return l.ReserveN(t.Context(), n) },
			"Keyed":   func(n int) (Reservation, error) { return k.ReserveN(t.Context(), "1", n) },
		}
		for name, reserve := range reserve {
			time.Sleep(time.Minute) // full, and out of debt
			for _, step := range []struct {
				reason           string
				estimate, actual int
				remaining        uint32
				uncharged        quota.Tokens
			}{
				{"less", 10, 4, 16, 0},
				{"as estimated", 5, 5, 11, 0},
				{"all of it back", 11, 0, 11, 0},
				{"more, into debt", 6, 14, 0, 0}, // -3
			} {
				r, err := reserve(step.estimate)
				if err != nil || !r.OK() {
					t.Fatalf("%s, %s: have %+v, %v", name, step.reason, r, err)
				}
				d, err := r.Settle(t.Context(), step.actual)
				if err != nil || d.Over || d.Statuses[0].Remaining != step.remaining || d.Statuses[0].Uncharged != step.uncharged {
					t.Errorf("%s, %s: have %+v, %v", name, step.reason, d, err)
				}
				if _, err := r.Settle(t.Context(), step.actual); !errors.Is(err, ErrArgument) {
					t.Errorf("%s, %s: settled twice: have %v", name, step.reason, err)
				}
			}
			denied, err := reserve(1)
			if err != nil || denied.OK() || denied.Delay() <= 300*time.Millisecond {
				t.Errorf("%s in debt: have %+v, delay %v, %v", name, denied, denied.Delay(), err)
			}
			if _, err := denied.Settle(t.Context(), 1); !errors.Is(err, ErrArgument) {
				t.Errorf("%s: settling what was denied: have %v", name, err)
			}
		}
		for name, settle := range map[string]func(ctx context.Context, estimate, actual int) (Decision, error){
			"Limiter": l.Settle,
			"Keyed": func(ctx context.Context, estimate, actual int) (Decision, error) {
				return k.Settle(ctx, "1", estimate, actual)
			},
		} {
			time.Sleep(time.Minute)
			d, err := settle(t.Context(), 10, 45)
			if err != nil || d.Statuses[0].Uncharged != 5*quota.Token {
				t.Errorf("%s: have %+v, %v", name, d, err)
			}
			for _, wrong := range [][2]int{{-1, 1}, {1, -1}} {
				if _, err := settle(t.Context(), wrong[0], wrong[1]); !errors.Is(err, ErrArgument) {
					t.Errorf("%s of %v: have %v", name, wrong, err)
				}
			}
		}
		if r, err := l.ReserveN(t.Context(), 1); err != nil || r.OK() {
			t.Errorf("have %+v, %v", r, err)
		}
		if _, err := (Reservation{}).Settle(t.Context(), 1); !errors.Is(err, ErrArgument) {
			t.Errorf("nothing was reserved: have %v", err)
		}
	})
}
