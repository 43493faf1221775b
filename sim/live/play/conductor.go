package play

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/sim/live"
)

// Event is something that happened in a run.
type Event struct {
	AtS  float64 `json:"at_s"` // since the load began
	Text string  `json:"text"`
}

// conductor makes the faults of a stage happen to a World. Each is a goroutine that
// ends when its fault has, which is at the latest when everything heals.
type conductor struct {
	*stage
	world *live.World
	out   io.Writer
	start time.Time

	ctx    context.Context // ends when everything heals
	heal   context.CancelFunc
	faults sync.WaitGroup
	cuts   *cuts

	mu       sync.Mutex
	events   []Event
	counts   map[string]int
	drawn    uint64 // streams of random choices
	problems []error
	busy     map[string]chan struct{} // what has a fault that excludes others
	edited   bool
	away     map[string][]time.Duration // by region, how long it was without the coordinators
	outages  map[string]time.Duration   // by region, how long it was without its store
	back     map[string]time.Time       // by region, when its store was back; far ahead while it is away
	owing    map[string]int             // by region, agents killed that may owe their store something
}

func newConductor(ctx context.Context, s *stage, w *live.World, out io.Writer) *conductor {
	c := &conductor{
		stage: s, world: w, out: out, start: time.Now(), counts: map[string]int{}, busy: map[string]chan struct{}{},
		away: map[string][]time.Duration{}, outages: map[string]time.Duration{}, owing: map[string]int{},
		back: map[string]time.Time{}, cuts: newCuts(),
	}
	c.ctx, c.heal = context.WithCancel(ctx)
	return c
}

func (c *conductor) now() time.Duration { return time.Since(c.start) }

func (c *conductor) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := Event{AtS: float64(c.now().Milliseconds()) / 1000, Text: fmt.Sprintf(format, args...)}
	c.events = append(c.events, e)
	fmt.Fprintf(c.out, "%8.3fs  %s\n", e.AtS, e.Text)
}

// say tells a person something that is no event.
func (c *conductor) say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(c.out, "%8.3fs  %s\n", c.now().Seconds(), fmt.Sprintf(format, args...))
}

func (c *conductor) count(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[what]++
}

// failed notes a fault that could not be made: the run did not do what it was to.
func (c *conductor) failed(what string, err error) {
	if err == nil || c.ctx.Err() != nil && errors.Is(err, c.ctx.Err()) {
		return
	}
	c.note("%s: %v", what, err)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problems = append(c.problems, fmt.Errorf("%s: %w", what, err))
}

// fault is something that goes wrong for a while.
type fault struct {
	// what it is, for the count, and text, for people.
	what, text string
	// on is what has no other fault at the same time: a process, a store.
	on string
	// length is how long it lasts, unless everything heals before; 0 is no time.
	length time.Duration
	// patient waits until another fault of the same is over; otherwise this one is
	// left out, as a random one may be.
	patient bool
	begin   func() error
	end     func(lasted time.Duration) error // nil for none
}

// inflict makes a fault happen and returns when it is over.
func (c *conductor) inflict(f fault) {
	free, ok := c.claim(f.on, f.patient)
	if !ok {
		return
	}
	defer free()
	c.note("%s", f.text)
	c.count(f.what)
	began := time.Now()
	if err := f.begin(); err != nil {
		c.failed(f.text, err) // what was begun is ended all the same
	} else {
		c.wait(f.length)
	}
	if f.end != nil {
		if err := f.end(time.Since(began)); err != nil {
			c.failed("end of "+f.what, err)
			return
		}
		c.note("over: %s", f.text)
	}
}

// claim takes a name for one fault. ok is false when it is taken and the caller
// does not wait, or when everything heals.
func (c *conductor) claim(name string, wait bool) (free func(), ok bool) {
	if name == "" {
		return func() {}, c.ctx.Err() == nil
	}
	c.mu.Lock()
	one, known := c.busy[name]
	if !known {
		one = make(chan struct{}, 1)
		c.busy[name] = one
	}
	c.mu.Unlock()
	free = func() { <-one }
	select {
	case one <- struct{}{}:
		return free, c.ctx.Err() == nil || release(free)
	default:
	}
	if !wait {
		return nil, false
	}
	select {
	case one <- struct{}{}:
		return free, true
	case <-c.ctx.Done():
		return nil, false
	}
}

// release frees what was claimed too late.
func release(free func()) bool {
	free()
	return false
}

// wait returns after d, or when everything heals.
func (c *conductor) wait(d time.Duration) (ok bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return c.ctx.Err() == nil
	case <-c.ctx.Done():
		return false
	}
}

// at makes something happen at a time of the load.
func (c *conductor) at(at quota.Micros, do func()) {
	c.faults.Go(func() {
		if c.wait(at.Duration() - c.now()) {
			do()
		}
	})
}

// every makes something happen at random, with a mean distance. Each kind draws
// from a stream of its own; what it does runs beside the next one's wait.
func (c *conductor) every(mean quota.Micros, stream uint64, do func(*rand.Rand)) {
	if mean == 0 {
		return
	}
	rnd := rand.New(rand.NewPCG(c.seed, 1<<32|stream))
	c.faults.Go(func() {
		for c.wait(quota.Micros(rnd.ExpFloat64() * float64(mean)).Duration()) {
			// Drawn here, so that it does not depend on how long others take.
			own := rand.New(rand.NewPCG(rnd.Uint64(), stream))
			c.faults.Go(func() { do(own) })
		}
	})
}

// between draws a time, in proportion to the run's.
func (c *conductor) between(rnd *rand.Rand, least, most time.Duration) time.Duration {
	d := least + time.Duration(rnd.Int64N(int64(most-least)+1))
	return time.Duration(float64(d) * c.factor)
}

// settle ends all faults and returns what could not be made or ended.
func (c *conductor) settle(ctx context.Context) error {
	c.heal()
	c.faults.Wait()
	c.calm()
	c.mu.Lock()
	edited := c.edited
	c.mu.Unlock()
	var err error
	if edited && ctx.Err() == nil {
		err = c.restore(ctx)
	}
	c.note("healed")
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(append(c.problems, err)...)
}

// history returns what happened so far.
func (c *conductor) history() ([]Event, map[string]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.events[:len(c.events):len(c.events)], maps.Clone(c.counts)
}

func (c *conductor) regions() (all []string) {
	for _, r := range c.world.Regions() {
		all = append(all, r.Name)
	}
	return all
}

// words joins what is not empty.
func words(parts ...string) string {
	var some []string
	for _, p := range parts {
		if p != "" {
			some = append(some, p)
		}
	}
	return strings.Join(some, " ")
}
