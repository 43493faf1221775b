package regional

import (
	"os"
	"runtime/debug"
)

// collectPercent is by how much the heap of an agent's process may grow between two
// garbage collections. The memory in use is a few megabytes, so with Go's 100 % the
// collector runs all the time: a quarter of what a decision on a hot key costs.
const collectPercent = 400

// TuneProcess sets the garbage collector for a process that is an agent and nothing
// else, as quorate-agent does. The environment wins where it has GOGC; GOMEMLIMIT works
// as always. An application that embeds an agent leaves it alone.
func TuneProcess() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectPercent)
	}
}
