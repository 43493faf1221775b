package regional

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
)

// Run serves until ctx ends, then drains: it tells health checks, answers what
// is in flight, and reports to the coordinator one last time. It returns when
// everything it started has ended; an error means that a port failed. It is called
// once.
func (a *Agent) Run(ctx context.Context) error {
	grpcAddr, httpAddr, adminAddr := a.Addrs()
	a.log.Info("agent starts", "region", a.cfg.Region, "agent", a.cfg.Agent, "grpc", grpcAddr, "http", httpAddr, "admin", adminAddr, "version", a.cfg.Version)

	// The loops outlive the front ends: what those still decide belongs into
	// the last report.
	loopCtx, stopLoops := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLoops()
	var loops errgroup.Group
	if !a.cfg.Alone {
		loops.Go(func() error { return a.uplink.Run(loopCtx) })
	}
	loops.Go(func() error { a.region.watch(loopCtx); return nil })
	loops.Go(func() error { a.health(loopCtx); return nil })

	serving, failed := errgroup.WithContext(ctx)
	if a.ports.grpc != nil {
		serving.Go(func() error { return a.rls.Serve(a.ports.grpc) })
	}
	if a.ports.http != nil {
		serving.Go(func() error { return serve(a.http, a.ports.http) })
	}
	if a.ports.admin != nil {
		serving.Go(func() error { return serve(a.admin, a.ports.admin) })
	}
	<-failed.Done() // ctx ended or a port failed
	a.drain(context.WithoutCancel(ctx))
	err := serving.Wait()
	stopLoops()
	err = errors.Join(err, loops.Wait())
	close(a.stopped)
	err = errors.Join(err, a.release())
	a.log.Info("agent stopped")
	return err
}

// drain stops the front ends; the admin port last, since somebody may watch.
func (a *Agent) drain(ctx context.Context) {
	a.log.Info("draining", "delay", a.cfg.DrainDelay.String(), "at_most", a.cfg.Drain.String())
	close(a.draining)
	a.rls.SetServing(false)
	time.Sleep(a.cfg.DrainDelay)
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Drain)
	defer cancel()
	var stopping errgroup.Group
	stopping.Go(func() error { a.rls.Stop(ctx); return nil })
	stopping.Go(func() error { return shut(ctx, a.http) })
	if err := errors.Join(stopping.Wait(), shut(ctx, a.admin)); err != nil {
		a.log.Warn("cut what was still in flight", "err", err)
	}
}

func serve(s *http.Server, l net.Listener) error {
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP on %s: %w", l.Addr(), err)
	}
	return nil
}

func shut(ctx context.Context, s *http.Server) error {
	if err := s.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("drain HTTP: %w", err), s.Close())
	}
	return nil
}

// healthEvery is how fast gRPC health checks follow readiness.
const healthEvery = 100 * time.Millisecond

// health keeps what health checks hear equal to readiness, until ctx ends.
func (a *Agent) health(ctx context.Context) {
	tick := time.NewTicker(healthEvery)
	defer tick.Stop()
	was := false
	for {
		missing := a.NotReady()
		if now := len(missing) == 0; now != was {
			was = now
			a.rls.SetServing(now)
			if now {
				a.log.Info("ready")
				a.metrics.ready.Set(1)
			} else {
				a.metrics.ready.Set(0)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
