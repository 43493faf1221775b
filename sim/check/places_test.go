package check

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/coordinator/quota"
)

// The oracle looks at every window that begins with an admission.
func TestPlacesFindTheWorstWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const length, limit = 20, 30
		p := NewPlaces(limit, length)
		var list []Admission
		var now quota.Micros
		for range rapid.IntRange(1, 40).Draw(t, "admissions") {
			now += quota.Micros(rapid.IntRange(0, 12).Draw(t, "wait"))
			cost := quota.Tokens(rapid.IntRange(1, 9).Draw(t, "cost"))
			p.Admit(now, cost)
			list = append(list, Admission{Cost: cost, Sent: now})
		}
		var most quota.Tokens
		for _, first := range list {
			var sum quota.Tokens
			for _, a := range list {
				if a.Sent >= first.Sent && a.Sent < first.Sent+length {
					sum += a.Cost
				}
			}
			most = max(most, sum)
		}
		if p.Worst() != limit-most {
			t.Fatalf("have %d, want %d", p.Worst(), limit-most)
		}
	})
}

func TestPlacesAdmitWhatFits(t *testing.T) {
	ideal, spare := NewPlaces(10, 60), NewPlaces(10, 60)
	for _, tt := range []struct {
		at   quota.Micros
		cost quota.Tokens
		want bool
	}{{0, 8, true}, {1, 3, false}, {1, 2, true}, {59, 1, false}, {60, 8, true}, {60, 1, false}, {61, 2, true}} {
		if have := ideal.Offer(tt.at, tt.cost); have != tt.want {
			t.Errorf("%d at %d: have %v", tt.cost, tt.at, have)
		}
		if have := spare.Deny(tt.at, tt.cost); have != tt.want {
			t.Errorf("denying %d at %d in vain: have %v", tt.cost, tt.at, have)
		}
	}
	if ideal.Admitted() != 20 || spare.Denied() != 20 || ideal.Worst() != 0 {
		t.Errorf("have %d admitted, %d denied in vain, worst %d", ideal.Admitted(), spare.Denied(), ideal.Worst())
	}
}

// The oracle looks at every interval within a window of a history in which some is given
// back.
func TestPlacesThatAreGivenBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const length, limit = 20, 30
		p := NewPlaces(limit, length)
		type event struct {
			at  quota.Micros
			net quota.Tokens
		}
		var list []event
		var now quota.Micros
		worst := quota.Tokens(limit)
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			now += quota.Micros(rapid.IntRange(0, 12).Draw(t, "wait"))
			net := quota.Tokens(rapid.IntRange(-9, 9).Draw(t, "net"))
			list = append(list, event{now, net})
			if net < 0 {
				p.GiveBack(now, -net)
			} else {
				p.Admit(now, net)
			}
			var most, sum quota.Tokens
			for i := len(list) - 1; i >= 0 && list[i].at > now-length; i-- {
				sum += list[i].net
				most = max(most, sum)
			}
			if have := p.Headroom(now); have != limit-most {
				t.Fatalf("headroom %d after %v, want %d", have, list, limit-most)
			}
			worst = min(worst, limit-most)
		}
		if p.Worst() != worst {
			t.Fatalf("worst %d, want %d", p.Worst(), worst)
		}
	})
}
