package play

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/quorate/quorate/sim/scenario"
)

// Options of a run.
type Options struct {
	Scenario scenario.Scenario
	Seed     uint64
	// Duration of the load until everything heals; 0 for the scenario's. All times
	// of the scenario shrink or grow with it, not the rates.
	Duration time.Duration
	// Coordinators is 3 or 5; 0 for the scenario's, or 3.
	Coordinators int
	// Sentinel gives every region a pair of Redis, as a scenario can.
	Sentinel bool
	// Keep is a directory for stores and logs that stays; empty is a temporary one.
	Keep string
	// Out is told what happens, a line each time. Default: nobody.
	Out io.Writer
}

// ErrOptions means that a scenario cannot be run as asked.
var ErrOptions = errors.New("invalid live run")

// Validate returns all problems of o beside those of its scenario.
func (o Options) Validate() error {
	var problems []error
	if o.Duration != 0 && (o.Duration < time.Second || o.Duration > longest) {
		problems = append(problems, fmt.Errorf("%w: duration %v is not between 1s and %v", ErrOptions, o.Duration, longest))
	}
	if n := o.Coordinators; n != 0 && n != 3 && n != 5 {
		problems = append(problems, fmt.Errorf("%w: %d coordinators; give 3 or 5", ErrOptions, n))
	}
	return errors.Join(problems...)
}
