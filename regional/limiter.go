package regional

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/quorate/quorate/regional/enforce"
)

// Limiter asks for one descriptor, in the manner of golang.org/x/time/rate:
//
//	logins, err := agent.Limiter("shop", regional.Entry{Key: "action", Value: "login"})
//	…
//	d, err := logins.Allow(ctx)
//	switch {
//	case err != nil: // nothing was decided: not ready, stopped, cancelled
//	case d.Over: // denied: come back after d.Retry
//	default: // admitted, to be served after d.Delay where a limit is shaped
//	}
//
// What it may do is not said here but by the rule that matches its descriptor,
// and is shared with everybody who asks for the same. It is safe for concurrent
// use and free to make; make one per descriptor and keep it, or use Keyed where
// the descriptor depends on the call.
type Limiter struct {
	asker
	domain   string
	entries  []Descriptor // one, at the cost of the request
	looking  []Descriptor // the same, at a cost of zero
	identity string
}

// Limiter returns a limiter for one descriptor of a domain. Entries are matched
// in their order. The error is ErrArgument: no domain, no entries, or an entry
// without a key. Whether a rule matches is not asked here, since rules come and
// go: see Strict.
func (a *Agent) Limiter(domain string, entries ...Entry) (*Limiter, error) {
	if err := valid(domain, entries); err != nil {
		return nil, err
	}
	entries = slices.Clone(entries)
	return &Limiter{
		asker: asker{agent: a}, domain: domain,
		entries:  []Descriptor{{Entries: entries}},
		looking:  []Descriptor{{Entries: entries, Hits: new(uint64)}},
		identity: string(appendIdentity(nil, domain, entries, Override{})),
	}, nil
}

// Strict returns the same limiter with another answer where no rule matches: the
// error ErrNoRule instead of an admission, as a limiter that limits nothing is
// more often a mistake than a wish.
func (l *Limiter) Strict() *Limiter {
	strict := *l
	strict.strict = true
	return &strict
}

// Override returns the same limiter with a limit of its own in the place of the rules',
// which has a bucket of its own for each such limit; the zero Override takes it away.
// Rules can switch that off (allow_override).
func (l *Limiter) Override(o Override) *Limiter {
	other := *l
	other.entries, other.looking = slices.Clone(l.entries), slices.Clone(l.looking)
	other.entries[0].Override, other.looking[0].Override = o, o
	other.identity = string(appendIdentity(nil, l.domain, l.entries[0].Entries, o))
	return &other
}

// Allow is AllowN with a cost of 1.
func (l *Limiter) Allow(ctx context.Context) (Decision, error) { return l.AllowN(ctx, 1) }

// AllowN takes n tokens now or none. n is the cost in requests; 0 only looks, and
// more than the limit's burst is denied for ever. It waits for nobody but the
// region's store and, once per key, at most the rule's cold_start_wait. An error
// means that nothing was decided: see Agent.Decide, and ErrNoRule (of a strict
// limiter) or ErrArgument for a negative cost.
//
// It does not wait for the turn in a shaped limit either: of a decision that is not Over
// the Delay says how long the caller has to hold its work back. Wait does that.
func (l *Limiter) AllowN(ctx context.Context, n int) (Decision, error) { return l.allow(ctx, n, 0) }

// AllowInto is AllowN in the memory of a decision that the caller is done with, as
// Agent.DecideInto: with an allowance it allocates nothing.
func (l *Limiter) AllowInto(ctx context.Context, n int, d *Decision) error {
	return l.allowInto(ctx, n, 0, d)
}

func (l *Limiter) allow(ctx context.Context, n int, maxDelay time.Duration) (d Decision, err error) {
	err = l.allowInto(ctx, n, maxDelay, &d)
	return d, err
}

func (l *Limiter) allowInto(ctx context.Context, n int, maxDelay time.Duration, d *Decision) error {
	req := Request{Domain: l.domain, Descriptors: l.entries, MaxDelay: maxDelay}
	switch {
	case n < 0:
		*d = Decision{}
		return negative(n)
	case n == 0:
		req.Descriptors = l.looking
	case uint64(n) <= math.MaxUint32:
		req.Hits = uint32(n)
	default:
		hits := uint64(n)
		req.Descriptors = []Descriptor{{Entries: l.entries[0].Entries, Hits: &hits, Override: l.entries[0].Override}}
	}
	return l.ask(ctx, req, d)
}

// Wait is WaitN with a cost of 1.
func (l *Limiter) Wait(ctx context.Context) error { return l.WaitN(ctx, 1) }

// WaitN blocks until n tokens were taken and their turn in a shaped limit has come, and
// returns nil; or nothing was taken, and the error says why:
//
//   - a *DeniedError with ErrDeadline, at once, when the wait would be longer
//     than the deadline of ctx, as far as this region can tell now;
//   - a *DeniedError with ErrNever, at once, when no wait helps: the cost is
//     above the burst, or the limit is zero;
//   - the error of ctx when it ended first;
//   - an error of AllowN: WaitN does not wait for an agent to become ready.
//
// Two errors come after the tokens were taken, and they stay taken: that of ctx when it
// ends while a shaped limit holds the caller back, and ErrDeadline without a
// *DeniedError, at once, when others were admitted between the look at a shaped limit
// and the charge, and the turn now comes after the deadline (see Decision.Delay).
//
// Waits for the same descriptor in one process are served first come, first
// served, and only the first of them asks.
func (l *Limiter) WaitN(ctx context.Context, n int) error {
	if n < 0 {
		return negative(n)
	}
	return l.wait(ctx, l.identity, func() (Decision, error) { return l.allow(ctx, n, maxDelay(ctx)) })
}

// Reserve is ReserveN with a cost of 1.
func (l *Limiter) Reserve(ctx context.Context) (Reservation, error) { return l.ReserveN(ctx, 1) }

// ReserveN takes n tokens now or none, as AllowN does and with its errors, and says
// it in the words of a reservation.
func (l *Limiter) ReserveN(ctx context.Context, n int) (Reservation, error) {
	d, err := l.AllowN(ctx, n)
	r := Reservation{decision: d, cost: n}
	if err == nil && r.OK() {
		r.settling = &settling{settle: l.Settle}
	}
	return r, err
}

// Settle settles what AllowN, WaitN or ReserveN was asked for at a cost of estimate,
// when it has cost actual: see Reservation.Settle. Here nobody sees that it is done
// once.
func (l *Limiter) Settle(ctx context.Context, estimate, actual int) (Decision, error) {
	return l.settlement(ctx, l.domain, l.entries, estimate, actual)
}

// asker is what the limiters of an agent share.
type asker struct {
	agent  *Agent
	strict bool
}

func (a *asker) ask(ctx context.Context, req Request, d *Decision) error {
	err := a.agent.DecideInto(ctx, req, d)
	if err == nil && a.strict && d.Statuses[0].Reason == enforce.NoRule {
		*d = Decision{}
		return fmt.Errorf("%w: domain %q; ask /v1/explain on the admin port why", ErrNoRule, req.Domain)
	}
	return err
}

func negative(n int) error { return fmt.Errorf("%w: a cost of %d", ErrArgument, n) }
