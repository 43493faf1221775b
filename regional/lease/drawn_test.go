package lease

import (
	"testing"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
)

func TestAConfigurationIsConfirmedWhenNothingIsDrawnByTheOneBefore(t *testing.T) {
	const adopted = 100 * quota.Second
	for _, c := range []struct {
		reason string
		state  bucket.State
		mine   uint64 // that the agent decides by
		want   uint64
	}{
		{"at once: the one before", bucket.State{Region: bucket.Region{Config: 7}, ConfigSince: adopted, Now: adopted, Prev: 5}, 7, 5},
		{"a microsecond too early", bucket.State{Region: bucket.Region{Config: 7}, ConfigSince: adopted, Now: adopted + bucket.DrawSpan - 1, Prev: 5}, 7, 5},
		{"after the span", bucket.State{Region: bucket.Region{Config: 7}, ConfigSince: adopted, Now: adopted + bucket.DrawSpan, Prev: 5}, 7, 7},
		{"after the span, but another agent adopted it", bucket.State{Region: bucket.Region{Config: 7}, ConfigSince: adopted, Now: adopted + bucket.DrawSpan, Prev: 5}, 5, 5},
		{"this agent has none yet", bucket.State{Region: bucket.Region{Config: 7}, ConfigSince: adopted, Now: adopted + bucket.DrawSpan, Prev: 5}, 0, 0},
		{"the first: nothing was drawn before", bucket.State{Region: bucket.Region{Config: 7}, ConfigSince: adopted, Now: adopted}, 7, 7},
		{"none", bucket.State{Now: adopted}, 0, 0},
	} {
		k := New(Config{Region: "eu", Agent: "a", Timing: quota.DefaultTiming(), Rand: func() float64 { return 0 }})
		if req := k.Request(Clock{}, c.state, Report{Config: c.mine}); req.Config != c.want {
			t.Errorf("%s: have %d, want %d", c.reason, req.Config, c.want)
		}
	}
}

func TestALostStoreIsReplacedWhenNothingIsDrawnFromIt(t *testing.T) {
	const began = 100 * quota.Second
	for _, c := range []struct {
		reason   string
		now      quota.Micros
		replaced string
		first    bool
		want     quota.Micros
	}{
		{"at once", began, "old", false, bucket.DrawSpan},
		{"later", began + bucket.DrawSpan/2, "old", false, bucket.DrawSpan / 2},
		{"after the span", began + bucket.DrawSpan, "old", false, 0},
		{"nobody saw one die", began, "", false, 0},
		{"the first of the region", began, "old", true, 0},
		{"on a clock that went back", began - quota.Second, "old", false, bucket.DrawSpan},
	} {
		if have := Settles(bucket.State{Since: began, Now: c.now, First: c.first}, c.replaced); have != c.want {
			t.Errorf("%s: have %d us, want %d", c.reason, have, c.want)
		}
	}
}
