package sim

import (
	"testing"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/sim/fault"
)

// Two agents that have something to say every few milliseconds, each when it has its
// answer, once kept a leader from planning anything: each message put the round off
// that the one before had made due.
func TestMessagesDoNotPutARoundOff(t *testing.T) {
	for _, tt := range []struct {
		reason string
		apart  quota.Micros
	}{
		{"more often than a round waits for what changes at the same time", gather / 3},
		{"just as often, so that a message comes when the round is due", gather},
		{"less often", 2 * gather},
	} {
		p := Swarm(1)
		p.Faults, p.Load, p.Final = fault.Plan{}, nil, nil
		w, err := newWorld(p, 1)
		if err != nil {
			t.Fatal(err)
		}
		w.loop.Run(10 * quota.Second) // there is a leader, and the regions have their rules
		l := w.leaders[len(w.leaders)-1]
		var disturb func()
		disturb = func() {
			l.hurry()
			w.loop.After(tt.apart, disturb)
		}
		disturb()
		before := w.entries
		w.loop.Run(20 * quota.Second)
		if have := w.entries - before; have < 9 {
			t.Errorf("%s: have %d entries in ten seconds, want a tick in each", tt.reason, have)
		}
	}
}
