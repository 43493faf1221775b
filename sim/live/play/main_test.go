package play

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/quorate/quorate/sim/live"
)

func TestMain(m *testing.M) {
	live.Main() // the nodes are this binary, started again
	goleak.VerifyTestMain(m)
}
