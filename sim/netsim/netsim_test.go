package netsim

import (
	"math/rand/v2"
	"testing"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/sim/vclock"
)

const ms = quota.Second / 1000

func newNet(f Faults) (*vclock.Loop, *Net) {
	loop := &vclock.Loop{}
	return loop, New(loop, rand.New(rand.NewPCG(1, 2)), f)
}

func TestMessagesTakeTheDelay(t *testing.T) {
	loop, n := newNet(Faults{Delay: 10 * ms, Jitter: 20 * ms})
	var first, last quota.Micros
	overtaken, newest := 0, -1
	for i := range 200 {
		n.Send("a", "b", func() {
			if first == 0 {
				first = loop.Now()
			}
			last = loop.Now()
			if i < newest {
				overtaken++
			}
			newest = max(newest, i)
		})
	}
	loop.Run(quota.Second)
	if first < 10*ms || last > 30*ms || last-first < 10*ms {
		t.Errorf("arrived from %v to %v, want within 10 ms to 30 ms and spread", first, last)
	}
	if overtaken == 0 {
		t.Error("no message was overtaken")
	}
}

func TestLossAndRepetition(t *testing.T) {
	loop, n := newNet(Faults{Loss: 0.3, Duplicate: 0.2})
	arrived := 0
	for range 10_000 {
		n.Send("a", "b", func() { arrived++ })
	}
	loop.Run(quota.Second)
	if want := 8_400; arrived < want-300 || arrived > want+300 { // 10,000 * 1.2 * 0.7
		t.Errorf("have %d messages, want about %d", arrived, want)
	}
	if n.Sent != 10_000 || n.Lost < 3_000 || n.Repeated < 1_800 {
		t.Errorf("counted %d sent, %d lost, %d repeated", n.Sent, n.Lost, n.Repeated)
	}
}

func TestCutsAreOneWay(t *testing.T) {
	loop, n := newNet(Faults{Delay: 10 * ms})
	var arrived []string
	send := func(from, to, name string) { n.Send(from, to, func() { arrived = append(arrived, name) }) }
	send("a", "b", "on the way when the cut began")
	loop.Run(ms)
	n.Cut("a", "b")
	send("a", "b", "sent into the cut")
	send("b", "a", "the other way")
	loop.Run(20 * ms)
	n.Heal("a", "b")
	send("a", "b", "after the cut")
	loop.Run(40 * ms)
	if len(arrived) != 2 || arrived[0] != "the other way" || arrived[1] != "after the cut" {
		t.Errorf("arrived: %q", arrived)
	}
	n.Cut("a", "b")
	if n.HealAll(); n.IsCut("a", "b") {
		t.Error("still cut after HealAll")
	}
}
