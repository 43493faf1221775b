package protocol

import (
	"flag"
	"runtime"
	"sync"
	"testing"
	"time"
)

var (
	seeds = flag.Int("seeds", defaultSeeds, "number of random runs")
	first = flag.Uint64("seed", 1, "the first seed; with -seeds=1 a single run is replayed")
)

// TestNothingBreaksTheBound runs thousands of random worlds. A failing seed
// replays with -seed N -seeds 1 -v.
func TestNothingBreaksTheBound(t *testing.T) {
	n := *seeds
	if testing.Short() {
		n = min(n, 200)
	}
	next := make(chan uint64)
	go func() {
		defer close(next)
		for i := range uint64(n) {
			next <- *first + i
		}
	}()
	var mu sync.Mutex
	var total world
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for seed := range next {
				w := newWorld(seed)
				if n == 1 {
					w.trace = t.Logf
					t.Logf("%+v", w.params)
				}
				w.run(time.Minute)
				if over := w.worst(); over > 0 {
					t.Errorf("seed %d: %v tokens over the Bound; %+v", seed, over, w.params)
				}
				mu.Lock()
				total.admitted += w.admitted
				total.denied += w.denied
				total.applied += w.applied
				total.elections += w.elections
				total.resets += w.resets
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	t.Logf("%d runs of 60 s: %d admitted, %d denied, %d assignments applied, %d elections, %d resets",
		n, total.admitted, total.denied, total.applied, total.elections, total.resets)
	if n >= 100 && (total.applied < n || total.denied < n || total.resets == 0) {
		t.Errorf("the runs exercise too little")
	}
}

// Each of these seeds once broke the Bound. They stay for what they found.
func TestSeedsThatFoundAHole(t *testing.T) {
	for seed, found := range map[uint64]string{
		1139: "a new rule, adopted by one region after another had spent its share",
		1769: "the same, with elections, resets and loss",
		1997: "a region whose first configuration came after others had leases",
	} {
		w := newWorld(seed)
		w.run(time.Minute)
		if over := w.worst(); over > 0 {
			t.Errorf("seed %d (%s): %v tokens over the Bound", seed, found, over)
		}
	}
}
