package scenario

import (
	"testing"

	"github.com/quorate/quorate/sim"
)

// What a seed has drawn can be kept as a scenario: it runs the same.
func TestADrawnPlanRunsTheSameFromItsText(t *testing.T) {
	for _, seed := range []uint64{0, 1, 2, 3, 4, 5, 6, 7, 12} { // 12 has settlements and debts
		plan := sim.Draw(seed)
		text := Format(plan, seed)
		s, err := Parse("drawn.yaml", text)
		if err != nil {
			t.Fatalf("seed %d: %v in\n%s", seed, err, text)
		}
		if again := Format(s.Plan, s.Seed); again != text {
			t.Fatalf("seed %d: have\n%s\nwant\n%s", seed, again, text)
		}
		want, err := sim.Run(plan, seed)
		if err != nil {
			t.Fatal(err)
		}
		have, err := sim.Run(s.Plan, s.Seed)
		if err != nil {
			t.Fatal(err)
		}
		if have.Hash != want.Hash || have.Events != want.Events || have.Messages != want.Messages {
			t.Errorf("seed %d: have hash %s, %d events, want %s, %d", seed, have.Hash, have.Events, want.Hash, want.Events)
		}
	}
}
