package live

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/quorate/quorate/regional/redisbucket/redistest"
	"github.com/quorate/quorate/sim/netproxy"
)

// quickly is the reconnect policy of everything that asks a node under test: a
// node that came back is seen at once.
var quickly = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.5, Jitter: 0.2, MaxDelay: 300 * time.Millisecond},
	MinConnectTimeout: time.Second,
}

// Region is one region: its store, its agents and their links.
type Region struct {
	Name   string
	Agents []*Agent

	store   *store
	storeMu sync.Mutex
}

// Agent returns agent i of the region.
func (r *Region) Agent(i int) *Agent { return r.Agents[i] }

// Redis is the region's redis-server, of a pair the primary; nil when the store is
// embedded.
func (r *Region) Redis() *redistest.Server { return r.store.current() }

// StoreURL is the address of the region's store, as an agent is told it.
func (r *Region) StoreURL() string { return r.store.address(nil) }

// Cut parts the region from all coordinators. Clients still reach its agents,
// and the agents their store.
func (r *Region) Cut() {
	for _, a := range r.Agents {
		a.Cut()
	}
}

// Heal brings the region back; what was on the way arrives now.
func (r *Region) Heal() {
	for _, a := range r.Agents {
		a.Heal()
	}
}

// IsCut reports whether all agents of the region are cut off.
func (r *Region) IsCut() bool {
	for _, a := range r.Agents {
		if !a.IsCut() {
			return false
		}
	}
	return true
}

// connected returns how many agents run and are not cut off.
func (r *Region) connected() (n int) {
	for _, a := range r.Agents {
		if a.Running() && !a.IsCut() {
			n++
		}
	}
	return n
}

// Agent is one agent of a region.
type Agent struct {
	Name   string
	Region string

	grpcAddr, httpAddr, adminAddr string
	links                         map[string]*netproxy.Link // by coordinator
	store                         *netproxy.Link            // nil when it reaches the store directly
	process                       *process
	conn                          *grpc.ClientConn // the load's
}

// GRPCAddr is where the agent serves the Envoy rate limit service.
func (a *Agent) GRPCAddr() string { return a.grpcAddr }

// HTTPAddr is where the agent serves /json and /v1/check.
func (a *Agent) HTTPAddr() string { return a.httpAddr }

// AdminAddr is where the agent serves /metrics.
func (a *Agent) AdminAddr() string { return a.adminAddr }

// Kill ends the agent at once, as kill -9 does.
func (a *Agent) Kill() { a.process.kill() }

// Stop ends the agent in order: it reports a last time.
func (a *Agent) Stop() error { return a.process.stop(stopGrace) }

// Restart starts the agent again. It does not wait until it is ready.
func (a *Agent) Restart() error { return a.process.start() }

// Freeze stops the process in its tracks, as a VM pause would.
func (a *Agent) Freeze() error { return a.process.signal(syscall.SIGSTOP) }

// Thaw lets a frozen agent go on.
func (a *Agent) Thaw() error { return a.process.signal(syscall.SIGCONT) }

// StepClocks sets the clocks that a running agent reads. What an agent has been
// told is gone with its process.
func (a *Agent) StepClocks(s ClockStep) error { return a.process.tell(s) }

// Running reports whether the agent's process runs.
func (a *Agent) Running() bool { return a.process.running() }

// Log is the path of the agent's log.
func (a *Agent) Log() string { return a.process.log }

// Link is the agent's link to a coordinator.
func (a *Agent) Link(coordinator string) *netproxy.Link { return a.links[coordinator] }

// StoreLink is the agent's link to its region's Redis, nil when it has none.
func (a *Agent) StoreLink() *netproxy.Link { return a.store }

// Cut parts the agent from all coordinators.
func (a *Agent) Cut() {
	for _, l := range a.links {
		l.Cut()
	}
}

// Heal brings the agent back.
func (a *Agent) Heal() {
	for _, l := range a.links {
		l.Heal()
	}
}

// IsCut reports whether all links of the agent are cut.
func (a *Agent) IsCut() bool {
	for _, l := range a.links {
		if !l.IsCut() {
			return false
		}
	}
	return true
}

// Ready asks the agent whether it is ready; nil is yes.
func (a *Agent) Ready(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+a.httpAddr+"/readyz", nil)
	if err != nil {
		return fmt.Errorf("ask %s: %w", a.Name, err)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("ask %s: %w", a.Name, err)
	}
	defer func() { _ = answer.Body.Close() }() // only the code counts
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s is not ready: %s", a.Name, answer.Status)
	}
	return nil
}

// AwaitReady waits until every running agent is ready.
func (w *World) AwaitReady(ctx context.Context) error {
	return w.await(ctx, "all agents ready", func(ctx context.Context) error {
		for _, r := range w.regions {
			for _, a := range r.Agents {
				if !a.Running() {
					continue
				}
				if err := a.Ready(ctx); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
