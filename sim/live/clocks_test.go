package live

import (
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/uplink"
)

func TestClocksAreTheMachinesAndWhatTheyAreSetTo(t *testing.T) {
	const day = 24 * 3600 * quota.Second
	for _, tt := range []struct {
		reason string
		step   ClockStep
	}{
		{"as they are", ClockStep{}},
		{"the wall clock is set", ClockStep{Real: -day}},
		{"a suspended machine", ClockStep{Boot: day, Real: day}},
	} {
		c := &clocks{}
		c.step(tt.step)
		m0, b0, r0 := uplink.ReadClocks()
		m, b, r := c.read()
		m1, b1, r1 := uplink.ReadClocks()
		within := func(name string, lo, have, hi quota.Micros) {
			if have < lo || have > hi {
				t.Errorf("%s: the %s clock reads %d, want %d … %d", tt.reason, name, have, lo, hi)
			}
		}
		within("monotonic", m0, m, m1)
		within("boot", b0+tt.step.Boot, b, b1+tt.step.Boot)
		within("wall", r0+tt.step.Real, r, r1+tt.step.Real)
	}
}

func TestDriftIsFromThenOn(t *testing.T) {
	c := &clocks{}
	c.drift(4_900)
	c.origin -= 1000 * quota.Second // a while ago
	before, _, _ := uplink.ReadClocks()
	have, _, _ := c.read()
	after, _, _ := uplink.ReadClocks()
	want := 1000 * quota.Second * 4_900 / quota.PPM
	if off := have - before; off < want || off > want+(after-before)+quota.MicrosOf(time.Millisecond) {
		t.Errorf("after 1000 s the clock is %v fast, want %v", off.Duration(), want.Duration())
	}
}

func TestDriftOfAnAgentIsBoundedAndRepeats(t *testing.T) {
	draw := func(seed uint64) (all []int64) {
		w := &World{opts: Options{Seed: seed, DriftPPM: 4_900}}
		for range 20 {
			d := w.drift()
			if d < -4_900 || d > 4_900 {
				t.Fatalf("have a drift of %d ppm", d)
			}
			all = append(all, d)
		}
		return all
	}
	one, same := draw(1), draw(1)
	different := map[int64]bool{}
	for i := range one {
		if one[i] != same[i] {
			t.Fatalf("drift %d: have %d, then %d", i, one[i], same[i])
		}
		different[one[i]] = true
	}
	if len(different) < 10 {
		t.Errorf("20 agents have only %d drifts", len(different))
	}
	if d := (&World{}).drift(); d != 0 {
		t.Errorf("without drift: have %d", d)
	}
}
