package demo

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/quorate/quorate/sim/live"
	"github.com/quorate/quorate/sim/workload"
)

// Event is something that happened on the way.
type Event struct {
	At   time.Duration // since the load began
	Text string
}

// script does to the World what the demo shows, and notes it.
type script struct {
	world    *live.World
	duration time.Duration
	start    time.Time
	killed   *live.Coordinator

	mu         sync.Mutex
	events     []Event
	partitions int
}

// step is one thing that happens, at a fraction of the duration.
type step struct {
	at float64
	do func(context.Context) (text string, err error)
}

func (s *script) steps() []step {
	eu := s.world.Region("eu")
	return []step{
		{0.25, func(context.Context) (string, error) { return "flash crowd in ap", nil }},
		{0.35, func(context.Context) (string, error) { return "the crowd in ap has gone", nil }},
		{0.42, func(ctx context.Context) (string, error) {
			leader, err := s.world.Leader(ctx)
			if err != nil {
				return "", err
			}
			s.killed = leader
			leader.Kill()
			return "leader " + leader.Name + " killed", nil
		}},
		{0.55, func(context.Context) (string, error) {
			if s.killed == nil {
				return "", nil
			}
			return s.killed.Name + " started again", s.killed.Restart()
		}},
		{0.62, func(context.Context) (string, error) {
			eu.Cut()
			s.mu.Lock()
			s.partitions++
			s.mu.Unlock()
			return "eu cut off from all coordinators", nil
		}},
		{0.82, func(context.Context) (string, error) {
			eu.Heal()
			return "eu reaches the coordinators again", nil
		}},
	}
}

// demand is what each region wants over time: a day in half the duration, with
// twice the limit over all regions, and a flash crowd in ap.
func demand(o Options) map[string]workload.Curve {
	rate := float64(o.Rate)
	sun := workload.FollowTheSun(3, 0.15*rate, 1.2*rate, o.Duration/2)
	return map[string]workload.Curve{"ap": sun[0], "eu": sun[1], "us": sun[2]}
}

// crowd is the flash crowd's own demand.
func crowd(o Options) workload.Curve {
	at := time.Duration(0.25 * float64(o.Duration))
	return workload.Flash(0, 1.5*float64(o.Rate), at, o.Duration/10)
}

// run plays the steps until the duration is over or ctx ends.
func (s *script) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for _, step := range append(s.steps(), step{at: 1}) {
		timer.Reset(time.Until(s.start.Add(time.Duration(step.at * float64(s.duration)))))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		if step.do == nil {
			return
		}
		text, err := step.do(ctx)
		if err != nil {
			text = fmt.Sprintf("%s: %v", text, err)
		}
		s.note(text)
	}
}

// note adds an event; an empty text is none.
func (s *script) note(text string) {
	if text == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, Event{At: time.Since(s.start), Text: text})
}

// history returns all events so far and the number of partitions.
func (s *script) history() ([]Event, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.events[:len(s.events):len(s.events)], s.partitions
}
