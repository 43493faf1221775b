package play

import (
	"context"
	"sync"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/sim"
	"github.com/quorate/quorate/sim/live"
)

// progress is how often a line says that it goes on.
const progress = 10 * time.Second

// series notes each second what was asked for, admitted and leased in each region,
// for the charts of the report.
type series struct {
	tracks []*live.Track
	watch  *live.Watch // of the only key; of several no lease is noted

	mu    sync.Mutex
	cells map[string][]sim.Cell
	last  map[string]live.Counts
}

func newSeries(tracks []*live.Track, watch *live.Watch) *series {
	return &series{tracks: tracks, watch: watch, cells: map[string][]sim.Cell{}, last: map[string]live.Counts{}}
}

// note notes the second that has passed in some regions.
func (s *series) note(regions []sim.Region) {
	sums := map[string]live.Counts{}
	for _, t := range s.tracks {
		t.AddTo(sums)
	}
	leases := s.watch.Sight().Leases
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range regions {
		now, before := sums[r.Name], s.last[r.Name]
		s.cells[r.Name] = append(s.cells[r.Name], sim.Cell{
			Offered: now.Offered - before.Offered, Admitted: now.Admitted - before.Admitted, Lease: leases[r.Name].Capacity.Rate,
		})
	}
	s.last = sums
}

// sums returns what was offered and admitted up to the last second.
func (s *series) sums() (offered, admitted quota.Tokens) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.last {
		offered += c.Offered
		admitted += c.Admitted
	}
	return offered, admitted
}

// sample notes every second, and says now and then how far it is, until ctx ends.
func (r *run) sample(ctx context.Context) {
	told := time.Duration(0)
	for second := time.Second; r.until(ctx, second); second += time.Second {
		r.series.note(r.plan.Regions)
		if second-told < progress {
			continue
		}
		told = second
		offered, admitted := r.series.sums()
		r.conductor.say("%d of %d admitted, about %v to go", admitted.Floor(), offered.Floor(),
			max(0, r.span.Duration()-r.conductor.now()).Round(time.Second))
	}
	r.series.note(r.plan.Regions) // what is left of a second
}
