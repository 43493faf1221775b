package regional

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/headers"
)

// Why a wait is denied; see DeniedError.
var (
	// ErrNever: the cost can never fit the limit, however long one waits.
	ErrNever = errors.New("the limit never admits this cost")
	// ErrDeadline: the tokens, or the turn in a shaped limit, come after the deadline of
	// the context.
	ErrDeadline = errors.New("the wait would exceed the context's deadline")
)

// DeniedError is a wait that ended with a denial. Nothing was taken.
type DeniedError struct {
	// Decision is the denial, empty when others wait for the same and the first
	// of them has a longer wait before it.
	Decision Decision
	// Err is ErrNever or ErrDeadline.
	Err error
}

// Error names the rule and the reason, never a value of the descriptor.
func (e *DeniedError) Error() string {
	if s := headers.Binding(e.Decision); s != nil && s.Rule != nil {
		return fmt.Sprintf("rate limit %s: %s: %v", s.Rule.ID, s.Reason, e.Err)
	}
	return "rate limit: " + e.Err.Error()
}

// Unwrap returns Err.
func (e *DeniedError) Unwrap() error { return e.Err }

const (
	// shortestPause keeps a wait from spinning, whatever it is told.
	shortestPause = time.Millisecond
	// longestPause is how long a wait trusts what it was told: a larger lease, a new
	// rule or a store that comes back make it shorter.
	longestPause = time.Second
)

// lines are the waits of one agent: one line for each descriptor that is waited
// for, first come, first served.
type lines struct {
	waiting atomic.Int64
	mu      sync.Mutex
	byName  map[string]*line
}

type line struct {
	head  chan struct{} // holds a token while somebody is at the head
	n     int           // who waits; guarded by lines.mu
	until time.Time     // when the head was told to come back; guarded by lines.mu
}

// wait waits until it is admitted, and then for as long as shaped limits hold it back.
func (a *asker) wait(ctx context.Context, name string, ask func() (Decision, error)) error {
	d, err := a.admission(ctx, name, ask)
	if err != nil {
		return err
	}
	return hold(ctx, d.Delay)
}

// admission takes its place in the line and asks until it is admitted.
func (a *asker) admission(ctx context.Context, name string, ask func() (Decision, error)) (Decision, error) {
	var d Decision
	if err := ctx.Err(); err != nil {
		return d, err
	}
	asked := a.agent.lines.waiting.Load() == 0 // nobody waits for anything
	if asked {
		var err error
		if d, err = ask(); err != nil || !d.Over {
			return d, err
		}
		if err := denied(ctx, d); err != nil {
			return d, err
		}
	}
	l := a.agent.lines.enter(name)
	defer a.agent.lines.leave(name, l)
	select {
	case l.head <- struct{}{}:
	default:
		asked = false // what it was told is old when its turn comes
		if deadline, ok := ctx.Deadline(); ok && deadline.Before(a.agent.lines.next(l)) {
			return d, &DeniedError{Err: ErrDeadline}
		}
		select {
		case l.head <- struct{}{}:
		case <-ctx.Done():
			return d, ctx.Err()
		case <-a.agent.stopped:
			return d, ErrStopped
		}
	}
	defer func() { <-l.head }()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ; ; asked = false {
		if !asked {
			var err error
			if d, err = ask(); err != nil || !d.Over {
				return d, err
			}
			if err := denied(ctx, d); err != nil {
				return d, err
			}
		}
		a.agent.lines.tell(l, d.Retry)
		timer.Reset(min(max(d.Retry, shortestPause), longestPause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return d, ctx.Err()
		case <-a.agent.stopped:
			return d, ErrStopped
		}
	}
}

// denied returns why a wait ends with d, nil when it goes on.
func denied(ctx context.Context, d Decision) error {
	if never(d) {
		return &DeniedError{Decision: d, Err: ErrNever}
	}
	if deadline, ok := ctx.Deadline(); ok && (tooLate(d) || time.Until(deadline) < d.Retry) {
		return &DeniedError{Decision: d, Err: ErrDeadline}
	}
	return nil
}

// never reports whether d denies for good.
func never(d Decision) bool {
	return d.Over && slices.ContainsFunc(d.Statuses, func(s enforce.Status) bool { return s.Over && s.Never })
}

func (l *lines) enter(name string) *line {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.byName[name]
	if one == nil {
		if l.byName == nil {
			l.byName = make(map[string]*line)
		}
		one = &line{head: make(chan struct{}, 1)}
		l.byName[name] = one
	}
	one.n++
	l.waiting.Add(1)
	return one
}

func (l *lines) leave(name string, one *line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one.n--; one.n == 0 {
		delete(l.byName, name)
	}
	l.waiting.Add(-1)
}

func (l *lines) tell(one *line, rest time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one.until = time.Now().Add(rest)
}

func (l *lines) next(one *line) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return one.until
}

// appendIdentity appends the name of a descriptor: different descriptors have
// different ones.
func appendIdentity(dst []byte, domain string, entries []Entry, o Override) []byte {
	dst = append(append(dst, o.String()...), 0)
	add := func(s string) {
		dst = binary.AppendUvarint(dst, uint64(len(s)))
		dst = append(dst, s...)
	}
	add(domain)
	for _, e := range entries {
		add(e.Key)
		add(e.Value)
	}
	return dst
}
