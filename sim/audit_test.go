package sim

import (
	"testing"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/sim/check"
	"github.com/quorate/quorate/sim/vclock"
)

// A bucket on a fast clock has, right after a request, a micro-token or so more than
// the true time and the clock's rate make of it: the clock is read in whole
// microseconds. That is what the auditor allows for, and nothing where clocks are true.
func TestTheAuditorAllowsForClocksOfWholeMicroseconds(t *testing.T) {
	for _, tt := range []struct {
		reason   string
		rate     quota.Rate
		driftPPM int64
	}{
		{"fast clocks", quota.Rate{Tokens: quota.Token, Per: quota.Second}, 4900},
		{"fast clocks, many tokens a microsecond", quota.Rate{Tokens: 20 * quota.Token, Per: quota.Second}, 4900},
		{"fast clocks, many microseconds a token", quota.Rate{Tokens: 100 * quota.Token, Per: 3600 * quota.Second}, 4900},
		{"true clocks", quota.Rate{Tokens: 20 * quota.Token, Per: quota.Second}, 0},
	} {
		limit := quota.Capacity{Rate: tt.rate, Burst: 10 * quota.Token}
		allowed := audited(limit, tt.driftPPM)
		rateOnly := quota.Capacity{Rate: allowed.Rate, Burst: limit.Burst}
		clock := vclock.NewClock(0, tt.driftPPM)
		needed := false
		for admitted := quota.Micros(0); admitted < 250; admitted++ {
			store := bucket.NewStore()
			store.Incarnate(clock.Read(0), "one")
			ask := bucket.Ask{Key: "k", Cost: quota.Token, Standing: bucket.Standing{Capacity: limit, Base: limit.Burst}}
			if ok, _ := store.Take(clock.Read(admitted), []bucket.Ask{ask}); !ok {
				t.Fatal("a full bucket denies")
			}
			meter, strict := check.NewMeter(allowed), check.NewMeter(rateOnly)
			meter.Admit(admitted, quota.Token)
			strict.Admit(admitted, quota.Token)
			ask.Cost = 0
			for now := admitted; now < admitted+250; now++ {
				_, v := store.Take(clock.Read(now), []bucket.Ask{ask})
				if have := meter.Headroom(now); v[0].Level > have {
					t.Fatalf("%s: %d us after a request at %d us there are %d micro-tokens, and the auditor allows %d", tt.reason, now-admitted, admitted, v[0].Level, have)
				}
				needed = needed || v[0].Level > strict.Headroom(now)
			}
		}
		if needed != (allowed.Burst > limit.Burst) {
			t.Errorf("%s: the auditor allows for a burst of %v instead of %v, and is it needed: %v", tt.reason, allowed.Burst, limit.Burst, needed)
		}
	}
}
