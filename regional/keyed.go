package regional

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/quorate/quorate/regional/enforce"
)

// Keyed is a Limiter whose descriptor depends on the call: one user, one tenant.
//
//	perUser, err := regional.NewKeyed(agent, "shop", func(to []regional.Entry, user string) []regional.Entry {
//		return append(to, regional.Entry{Key: "user", Value: user})
//	})
//	…
//	d, err := perUser.Allow(ctx, "42")
//
// It is safe for concurrent use, and asking allocates no more than a Limiter does.
type Keyed[K any] struct {
	asker
	domain   string
	entries  func(to []Entry, k K) []Entry
	override Override
	calls    *sync.Pool
}

// call is the memory of one request.
type call struct {
	entries    []Entry
	descriptor [1]Descriptor
	hits       uint64
	identity   []byte
}

// NewKeyed returns a limiter that asks agent for what entries appends to its
// first argument for a key. entries is called once per ask, must be safe for
// concurrent use and must append at least one entry; the slice it is given is
// used again after the ask. The error is ErrArgument: no domain, or no function.
func NewKeyed[K any](agent *Agent, domain string, entries func(to []Entry, k K) []Entry) (*Keyed[K], error) {
	if agent == nil || entries == nil {
		return nil, fmt.Errorf("%w: no agent, or no function from keys to entries", ErrArgument)
	}
	if domain == "" {
		return nil, fmt.Errorf("%w: %w", ErrArgument, enforce.ErrEmptyDomain)
	}
	return &Keyed[K]{
		asker: asker{agent: agent}, domain: domain, entries: entries,
		calls: &sync.Pool{New: func() any { return new(call) }},
	}, nil
}

// Strict is Limiter.Strict.
func (l *Keyed[K]) Strict() *Keyed[K] {
	strict := *l
	strict.strict = true
	return &strict
}

// Override is Limiter.Override.
func (l *Keyed[K]) Override(o Override) *Keyed[K] {
	other := *l
	other.override = o
	return &other
}

// Allow is AllowN with a cost of 1.
func (l *Keyed[K]) Allow(ctx context.Context, k K) (Decision, error) { return l.AllowN(ctx, k, 1) }

// AllowN is Limiter.AllowN for the descriptor of k. The error is also ErrArgument
// when k has no entries, or one without a key.
func (l *Keyed[K]) AllowN(ctx context.Context, k K, n int) (Decision, error) {
	var d Decision
	err := l.AllowInto(ctx, k, n, &d)
	return d, err
}

// AllowInto is Limiter.AllowInto for the descriptor of k.
func (l *Keyed[K]) AllowInto(ctx context.Context, k K, n int, d *Decision) error {
	c := l.begin(k)
	defer l.end(c)
	return l.allow(ctx, c, n, 0, d)
}

// Wait is WaitN with a cost of 1.
func (l *Keyed[K]) Wait(ctx context.Context, k K) error { return l.WaitN(ctx, k, 1) }

// WaitN is Limiter.WaitN for the descriptor of k.
func (l *Keyed[K]) WaitN(ctx context.Context, k K, n int) error {
	c := l.begin(k)
	defer l.end(c)
	if err := l.valid(c, n); err != nil {
		return err
	}
	c.identity = appendIdentity(c.identity[:0], l.domain, c.entries, l.override)
	return l.wait(ctx, string(c.identity), func() (d Decision, err error) {
		err = l.allow(ctx, c, n, maxDelay(ctx), &d)
		return d, err
	})
}

// Reserve is ReserveN with a cost of 1.
func (l *Keyed[K]) Reserve(ctx context.Context, k K) (Reservation, error) {
	return l.ReserveN(ctx, k, 1)
}

// ReserveN is Limiter.ReserveN for the descriptor of k.
func (l *Keyed[K]) ReserveN(ctx context.Context, k K, n int) (Reservation, error) {
	d, err := l.AllowN(ctx, k, n)
	r := Reservation{decision: d, cost: n}
	if err == nil && r.OK() {
		r.settling = &settling{settle: func(ctx context.Context, estimate, actual int) (Decision, error) {
			return l.Settle(ctx, k, estimate, actual)
		}}
	}
	return r, err
}

// Settle is Limiter.Settle for the descriptor of k.
func (l *Keyed[K]) Settle(ctx context.Context, k K, estimate, actual int) (Decision, error) {
	c := l.begin(k)
	defer l.end(c)
	if err := l.valid(c, 0); err != nil {
		return Decision{}, err
	}
	c.descriptor[0] = Descriptor{Entries: c.entries, Override: l.override}
	return l.settlement(ctx, l.domain, c.descriptor[:], estimate, actual)
}

func (l *Keyed[K]) begin(k K) *call {
	c := l.calls.Get().(*call)
	c.entries = l.entries(c.entries[:0], k)
	return c
}

func (l *Keyed[K]) end(c *call) {
	clear(c.entries)
	c.descriptor[0] = Descriptor{}
	l.calls.Put(c)
}

func (l *Keyed[K]) allow(ctx context.Context, c *call, n int, maxDelay time.Duration, d *Decision) error {
	if err := l.valid(c, n); err != nil {
		*d = Decision{}
		return err
	}
	c.hits = uint64(n)
	c.descriptor[0] = Descriptor{Entries: c.entries, Hits: &c.hits, Override: l.override}
	return l.ask(ctx, Request{Domain: l.domain, Descriptors: c.descriptor[:], MaxDelay: maxDelay}, d)
}

func (l *Keyed[K]) valid(c *call, n int) error {
	if n < 0 {
		return negative(n)
	}
	return valid(l.domain, c.entries)
}
