// Command hunter runs a sweep of random worlds until one breaks a promise, and
// prints what broke first as JSON. Package mutants builds it with a bug in it.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"

	"github.com/quorate/quorate/sim"
	"github.com/quorate/quorate/sim/mutants"
)

func main() {
	first := flag.Uint64("first", 1, "the first seed")
	seeds := flag.Int("seeds", 1, "the number of seeds at most")
	flag.Parse()
	if err := run(*first, *seeds); err != nil {
		fmt.Fprintln(os.Stderr, "hunter:", err)
		os.Exit(1)
	}
}

func run(first uint64, seeds int) error {
	s, err := sim.RunSweep(context.Background(), sim.SweepOptions{First: first, Seeds: seeds, StopAtFirst: true})
	if err != nil {
		return err
	}
	var trace mutants.Trace
	if len(s.Failed) > 0 {
		// Every seed below this one was run too, so the count does not depend on
		// the number of cores.
		r := s.Failed[0]
		trace = mutants.Trace{Seed: r.Seed, Promise: r.Violations[0].Promise, What: r.Violations[0].What}
	}
	return json.NewEncoder(os.Stdout).Encode(trace)
}
