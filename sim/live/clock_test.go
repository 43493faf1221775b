package live

import (
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
)

func TestWallClockCountsWhatItJumpedAhead(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		reason  string
		offsets []time.Duration
		want    time.Duration
	}{
		{"a clock that is left alone", []time.Duration{0, 0, 0}, 0},
		{"set ahead once", []time.Duration{0, 120 * ms, 120 * ms}, 120 * ms},
		{"set back", []time.Duration{0, -120 * ms}, 0},
		{"back and ahead again, from the lowest point", []time.Duration{5 * ms, -100 * ms, 20 * ms}, 120 * ms},
		{"the offset it began with does not count", []time.Duration{70 * ms, 80 * ms}, 10 * ms},
	} {
		var c wallclock
		for _, o := range tt.offsets {
			c.note(o)
		}
		if c.ahead != tt.want {
			t.Errorf("%s: have %v, want %v", tt.reason, c.ahead, tt.want)
		}
	}
}

func TestSlackIsTheRefillOfAJump(t *testing.T) {
	c := quota.Capacity{Rate: quota.Rate{Tokens: 30 * quota.Token, Per: quota.Second}, Burst: quota.Token}
	if have := slack(c, 0); have != 0 {
		t.Errorf("no jump: have %v, want 0", have)
	}
	if have, want := slack(c, 100*time.Millisecond), 3*quota.Token+30; have != want {
		t.Errorf("100 ms at 30/s: have %v, want %v", have, want)
	}
}
