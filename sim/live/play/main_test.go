package play

import (
	"os"
	"testing"

	"github.com/quorate/quorate/sim/live"
)

func TestMain(m *testing.M) {
	live.Main() // the nodes are this binary, started again
	os.Exit(m.Run())
}
