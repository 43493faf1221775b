package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
)

// World is a running set of coordinators and regions. Its methods are safe for
// concurrent use, but a node is killed and restarted by one caller at a time.
type World struct {
	opts         Options
	dir          string
	ownsDir      bool
	start        time.Time
	coordinators []*Coordinator
	regions      []*Region
	closers      []func() error // run last to first by Close
	links        uint64         // opened so far: the seed of the next
	wall         wallclock
	reaper       *process
	drifts       uint64 // drawn so far

	mu    sync.Mutex
	loads []*Load
}

// Start builds a World and returns when it has a leader and, with rules, every
// agent is ready. ctx bounds the start only; Close ends the World.
func Start(ctx context.Context, opts Options) (*World, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	w := &World{opts: opts.withDefaults(), dir: opts.Dir, start: time.Now()}
	if err := w.build(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start world: %w", err), w.Close())
	}
	return w, nil
}

func (w *World) build(ctx context.Context) error {
	var watching sync.WaitGroup
	done := make(chan struct{})
	watching.Go(func() { w.wall.watch(w.start, done) })
	w.closers = append(w.closers, func() error {
		close(done)
		watching.Wait()
		return nil
	})
	if w.dir == "" {
		dir, err := os.MkdirTemp("", "quorate-live-")
		if err != nil {
			return fmt.Errorf("make a directory: %w", err)
		}
		w.dir, w.ownsDir = dir, true
	}
	if err := os.MkdirAll(w.dir, 0o755); err != nil {
		return fmt.Errorf("make the directory: %w", err)
	}
	// What an earlier World left there knows other addresses.
	if left, err := os.ReadDir(w.dir); err != nil || len(left) > 0 {
		return errors.Join(fmt.Errorf("%w: directory %s must be empty, it has %d entries", ErrOptions, w.dir, len(left)), err)
	}
	if err := w.startReaper(); err != nil {
		return err
	}
	var free ports
	w.closers = append(w.closers, func() error { free.release(); return nil })
	if err := w.buildCoordinators(&free); err != nil {
		return err
	}
	stores, err := w.openStores()
	if err != nil {
		return err
	}
	for i, spec := range w.opts.Regions {
		if err := w.buildRegion(spec, stores[i], &free); err != nil {
			return err
		}
	}
	for _, c := range w.coordinators {
		if err := c.process.start(); err != nil {
			return err
		}
	}
	for _, r := range w.regions {
		for _, a := range r.Agents {
			if err := a.process.start(); err != nil {
				return err
			}
		}
	}
	if _, err := w.AwaitLeader(ctx); err != nil {
		return err
	}
	if w.opts.Rules == "" {
		return nil
	}
	if err := w.ApplyRules(ctx, w.opts.Rules); err != nil {
		return err
	}
	return w.AwaitReady(ctx)
}

// Dir is the directory with the stores and the logs.
func (w *World) Dir() string { return w.dir }

// Regions returns all regions in the order of the options.
func (w *World) Regions() []*Region { return w.regions }

// Region returns a region by its name, nil when there is none.
func (w *World) Region(name string) *Region {
	for _, r := range w.regions {
		if r.Name == name {
			return r
		}
	}
	return nil
}

// Coordinators returns all coordinators.
func (w *World) Coordinators() []*Coordinator { return w.coordinators }

// Coordinator returns coordinator i, from 0.
func (w *World) Coordinator(i int) *Coordinator { return w.coordinators[i] }

// Now is the World's one clock: the time since its start.
func (w *World) Now() quota.Micros { return quota.MicrosOf(time.Since(w.start)) }

// Close ends all loads and nodes and removes the temporary directory. It
// reports data races that nodes built with the race detector found.
func (w *World) Close() error {
	w.mu.Lock()
	loads, closers := w.loads, w.closers
	w.loads, w.closers = nil, nil
	w.mu.Unlock()
	for _, l := range loads {
		l.Stop()
	}
	// A World may be closed in the middle of a fault; nodes end in order all the same.
	problems := []error{w.stop()}
	for i := len(closers) - 1; i >= 0; i-- {
		problems = append(problems, closers[i]())
	}
	problems = append(problems, w.races())
	if w.ownsDir {
		problems = append(problems, os.RemoveAll(w.dir))
	}
	return errors.Join(problems...)
}

// stop ends the agents, then the coordinators, each in order.
func (w *World) stop() error {
	var agents, coordinators []*process
	var problems []error
	for _, r := range w.regions {
		r.Heal()
		for _, a := range r.Agents {
			agents = append(agents, a.process)
		}
	}
	for _, c := range w.coordinators {
		w.Rejoin(c)
		problems = append(problems, c.emptyDisk())
		coordinators = append(coordinators, c.process)
	}
	return errors.Join(append(problems, stopAll(agents), stopAll(coordinators))...)
}

func stopAll(all []*process) error {
	problems := make([]error, len(all))
	var ending sync.WaitGroup
	for i, p := range all {
		ending.Go(func() {
			_ = p.signal(syscall.SIGCONT) // a frozen process cannot end; it may have ended
			problems[i] = p.stop(stopGrace)
		})
	}
	ending.Wait()
	return errors.Join(problems...)
}

// Died returns an error (ErrDied) for every node that has ended although nobody
// asked it to, with the end of its log.
func (w *World) Died() error {
	var problems []error
	for _, p := range w.processes() {
		problems = append(problems, p.died())
	}
	return errors.Join(problems...)
}

func (w *World) races() error {
	var problems []error
	for _, p := range w.processes() {
		data, err := os.ReadFile(p.log)
		if err != nil {
			continue // it never started
		}
		if _, report, ok := strings.Cut(string(data), "WARNING: DATA RACE"); ok {
			problems = append(problems, fmt.Errorf("%s has a data race:%.3000s", p.name, report))
		}
	}
	return errors.Join(problems...)
}

func (w *World) processes() (all []*process) {
	for _, c := range w.coordinators {
		all = append(all, c.process)
	}
	for _, r := range w.regions {
		for _, a := range r.Agents {
			all = append(all, a.process)
		}
	}
	return all
}

func (w *World) logPath(name string) string { return filepath.Join(w.dir, name+".log") }

// await tries until what is wanted holds, ctx ends or the patience does. The
// error names what was wanted and what was in the way.
func (w *World) await(ctx context.Context, wanted string, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, w.opts.Patience)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		attempt, done := context.WithTimeout(ctx, 3*time.Second)
		err := try(attempt)
		done()
		if err == nil {
			return nil
		}
		if died := w.Died(); died != nil {
			return fmt.Errorf("wait for %s: %w", wanted, died)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w (last: %w)", wanted, ctx.Err(), err)
		}
	}
}
