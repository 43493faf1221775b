package regional

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/enforce"
)

// The words of a decision, for applications that decide in their own process.
type (
	// Entry is one key and value of a descriptor. A rule matches the keys in
	// their order, and values where it names them.
	Entry = rules.Entry
	// Descriptor is a list of entries to be counted, with a cost of its own or none.
	Descriptor = enforce.Descriptor
	// Override is a limit of the request's own for a descriptor, in the place of those
	// of the rules. It is served from leases only, so an agent that is Alone, or has no
	// coordinator for longer than leases last, denies it unless the rule says otherwise.
	Override = rules.Override
	// Request is one decision over one or more descriptors: all are charged or none.
	Request = enforce.Request
	// Decision is the answer. Over says that the request is to be denied, Retry
	// how long to wait before the same request may be served; Delay for how long to
	// hold back what is admitted by a shaped limit.
	Decision = enforce.Decision
)

// Errors of decisions in this process. Each means that nothing was decided, in
// contrast to a Decision that is Over.
var (
	// ErrNotReady: there are no rules yet. See Agent.AwaitReady.
	ErrNotReady = enforce.ErrNoConfig
	// ErrStopped: the agent was stopped.
	ErrStopped = errors.New("the rate limit agent has stopped")
	// ErrNoRule: no rule matches, and the limiter is strict.
	ErrNoRule = errors.New("no rate limit rule matches")
	// ErrArgument: the limiter cannot be, or the cost is negative; the text says why.
	ErrArgument = errors.New("rate limiter cannot work like this")
)

// ParseOverride reads an override as "10/minute": a whole number of requests, and second,
// minute, hour, day, week, month (30 days) or year (365 days). The error says what is wrong.
func ParseOverride(text string) (Override, error) { return rules.ParseOverride(text) }

// Open starts an agent inside an application: what quorate-agent runs, with ports
// only where cfg has addresses. It returns when the agent can decide (its region's
// store has answered, and there are rules), and fails when ctx ends before; ctx has
// no say later. Close the agent at the end. The error is ErrConfig, that of a port, or
// says what is missing.
//
// An application that would rather serve without its limits than wait for them calls
// Start: until the agent is ready every decision is ErrNotReady, and the application
// (or OnFailure of the middleware) says what that means.
func Open(ctx context.Context, cfg Config) (*Agent, error) {
	a, err := Start(cfg)
	if err != nil {
		return nil, err
	}
	if err := a.AwaitReady(ctx); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// Start is Open without the waiting: New, and Run in a goroutine that Close ends.
func Start(cfg Config) (*Agent, error) {
	a, err := New(cfg)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	a.cancel, a.ended = cancel, make(chan struct{})
	go func() {
		defer close(a.ended)
		a.result = a.Run(ctx)
	}()
	return a, nil
}

// AwaitReady returns nil as soon as the agent can decide. Run must be running. When
// ctx ends before, the error says what is missing; after Run has ended it is
// ErrStopped.
func (a *Agent) AwaitReady(ctx context.Context) error {
	select {
	case <-a.region.ready:
		return nil
	case <-a.stopped:
		return ErrStopped
	case <-ctx.Done():
		return fmt.Errorf("rate limit agent is not ready: %s: %w", strings.Join(a.region.missing(), "; "), ctx.Err())
	}
}

// Decide makes one decision in this process, as the front ends do. The errors are
// ErrNotReady, ErrStopped, those of package enforce for a request that makes no sense,
// and that of ctx when it has ended before anything was asked. A store or a
// coordinator that is away is no error: each rule says what happens then, and so it
// does when the deadline of ctx passes while the store is asked.
//
// It keeps nothing of req when it has returned.
func (a *Agent) Decide(ctx context.Context, req Request) (Decision, error) {
	var d Decision
	err := a.DecideInto(ctx, req, &d)
	return d, err
}

// DecideInto is Decide for callers that count allocations: it puts the decision in the
// place of one that the caller is done with, and uses its memory again. After an error
// there is nothing in it.
func (a *Agent) DecideInto(ctx context.Context, req Request, d *Decision) error {
	if err := ctx.Err(); err != nil {
		*d = Decision{}
		return fmt.Errorf("decide: %w", err)
	}
	select {
	case <-a.stopped:
		*d = Decision{}
		return ErrStopped
	default:
		return a.decideInto(ctx, req, d)
	}
}

// valid reports why a limiter cannot ask for these entries.
func valid(domain string, entries []Entry) error {
	if domain == "" {
		return fmt.Errorf("%w: %w", ErrArgument, enforce.ErrEmptyDomain)
	}
	if len(entries) == 0 {
		return fmt.Errorf("%w: no entries; give at least one key and value", ErrArgument)
	}
	for i, e := range entries {
		if e.Key == "" {
			return fmt.Errorf("%w: entry %d has no key", ErrArgument, i+1)
		}
	}
	return nil
}
