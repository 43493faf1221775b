package demo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/sim/live"
)

// Run builds the World, plays the demo and returns what was measured: all of
// it, or what there was when ctx ended. An error means that there is nothing
// to report, or that a node ended by itself.
func Run(ctx context.Context, o Options) (Summary, error) {
	if err := o.Validate(); err != nil {
		return Summary{}, err
	}
	fmt.Fprintln(o.Out, "starting 3 coordinators and 3 regions …")
	world, err := live.Start(ctx, o.world())
	if err != nil {
		return Summary{}, err
	}
	summary, err := play(ctx, world, o)
	if err = errors.Join(err, world.Died(), world.Close()); err != nil {
		return summary, fmt.Errorf("demo: %w", err)
	}
	return summary, nil
}

func play(ctx context.Context, world *live.World, o Options) (Summary, error) {
	identity := live.Identity{Domain: domain, Entries: []rules.Entry{{Key: entry, Value: value}}}
	track := world.Track(identity, o.limit())
	watch := world.Watch(track)
	defer watch.Stop()

	script := &script{world: world, duration: o.Duration, start: time.Now()}
	var loads []*live.Load
	curves := demand(o)
	for _, r := range world.Regions() {
		load, err := world.Load(live.LoadSpec{Region: r.Name, Track: track, Demand: curves[r.Name]})
		if err != nil {
			return Summary{}, err
		}
		loads = append(loads, load)
	}
	load, err := world.Load(live.LoadSpec{Region: "ap", Track: track, Demand: crowd(o)})
	if err != nil {
		return Summary{}, err
	}
	loads = append(loads, load)

	camera := &camera{options: o, world: world, track: track, watch: watch, script: script}
	playing, end := context.WithCancel(ctx)
	defer end()
	var showing sync.WaitGroup
	var shown error
	showing.Go(func() {
		if o.View {
			shown = view(playing, o.Input, o.Out, camera, end)
			end() // without its view the demo has no purpose
			return
		}
		lines(playing, o.Out, camera)
	})
	script.run(playing)
	for _, l := range loads {
		l.Stop()
	}
	took := min(time.Since(script.start), o.Duration)
	end()
	showing.Wait()

	events, partitions := script.history()
	return summarize(o, world, took, track.Tally(), track.Audit(), watch.Sight(), events, partitions), shown
}
