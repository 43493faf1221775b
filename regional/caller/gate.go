package caller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/enforce"
)

// OnFailure says what to do with a call about which nothing was decided: there are no
// rules yet, or the agent has stopped. (A Redis or a coordinator that is away is no
// such failure: each rule says what happens then.) There is no default.
type OnFailure uint8

// The policies.
const (
	_ OnFailure = iota
	// Deny answers that the service is not available: 503, or UNAVAILABLE.
	Deny
	// Admit serves the call.
	Admit
)

// Config sets up a Gate for calls of type T.
type Config[T any] struct {
	// Decide makes the decisions: Agent.Decide.
	Decide func(ctx context.Context, r enforce.Request) (enforce.Decision, error)
	// Domain is that of the rules.
	Domain string
	// Descriptors is what a call counts for: all of them are charged, or none. Each is
	// a list of keys in the order of the rules.
	Descriptors [][]Key[T]
	// Cost returns what a call costs in requests; 0 only looks. Nil means 1.
	Cost func(call T) uint64
	// OnFailure is for calls about which nothing was decided.
	OnFailure OnFailure
	// MaxDelay is how long a call may be held back for shaped limits. Default
	// DefaultMaxDelay.
	MaxDelay time.Duration
	// Logger is told when calls begin to be answered without a decision, and why, and
	// when that ends. Nil: nobody hears it.
	Logger *slog.Logger
}

// ErrConfig means that the configuration cannot work; the text lists every problem.
var ErrConfig = errors.New("invalid rate limit configuration")

// Gate asks about calls. It is safe for concurrent use.
type Gate[T any] struct {
	cfg Config[T]
	// blind says that calls are answered without a decision now.
	blind atomic.Bool
}

// New returns a gate. The error is ErrConfig and has all problems.
func New[T any](cfg Config[T]) (*Gate[T], error) {
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("%w: "+format, append([]any{ErrConfig}, args...)...))
	}
	if cfg.Decide == nil {
		bad("nothing decides; give Decide, of an agent")
	}
	if cfg.Domain == "" {
		bad("no domain; give that of the rules")
	}
	if len(cfg.Descriptors) == 0 {
		bad("no descriptors; give at least one list of keys")
	}
	for i, keys := range cfg.Descriptors {
		if len(keys) == 0 {
			bad("descriptor %d has no keys", i+1)
		}
		for j, k := range keys {
			switch {
			case k.Name == "":
				bad("key %d of descriptor %d has no name", j+1, i+1)
			case k.Value == nil:
				bad("key %q of descriptor %d has no Value", k.Name, i+1)
			case k.Missing < Refuse || k.Missing > Share:
				bad("key %q of descriptor %d: say what happens when its value is missing: Refuse, Skip or Share", k.Name, i+1)
			}
		}
	}
	if cfg.OnFailure != Deny && cfg.OnFailure != Admit {
		bad("say what happens when nothing was decided: Deny or Admit")
	}
	if cfg.MaxDelay < 0 {
		bad("a MaxDelay of %v; leave it out for %v", cfg.MaxDelay, DefaultMaxDelay)
	}
	if cfg.MaxDelay == 0 {
		cfg.MaxDelay = DefaultMaxDelay
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Gate[T]{cfg: cfg}, nil
}

// ErrUndecided means that nothing was decided, and that calls are denied then.
var ErrUndecided = errors.New("the rate limit cannot be asked")

// Ask decides about a call, and returns when one that is admitted may be served: at
// once, or after its turn in a shaped limit has come. A call whose turn would come after
// MaxDelay, or after the deadline of ctx, is denied and charged nothing. A call that
// counts for nothing (see Skip), or that is admitted without a decision (see Admit), has
// a decision without statuses that is not Over. The error is a *RefusedError, ErrUndecided, or that of ctx; when ctx ends while
// the call is held back, what it cost stays taken.
func (g *Gate[T]) Ask(ctx context.Context, call T) (enforce.Decision, error) {
	req, err := g.request(call)
	if err != nil || len(req.Descriptors) == 0 {
		return enforce.Decision{}, err
	}
	req.MaxDelay = maxDelay(ctx, g.cfg.MaxDelay)
	d, err := g.cfg.Decide(ctx, req)
	if err == nil {
		if g.blind.Load() && g.blind.CompareAndSwap(true, false) {
			g.cfg.Logger.Info("calls are limited again", "domain", g.cfg.Domain)
		}
		return hold(ctx, d)
	}
	if ctx.Err() != nil {
		return enforce.Decision{}, ctx.Err()
	}
	admits := g.cfg.OnFailure == Admit
	if g.blind.CompareAndSwap(false, true) {
		g.cfg.Logger.Warn("the rate limit cannot be asked", "domain", g.cfg.Domain, "calls_are_admitted", admits, "err", err)
	}
	if admits {
		return enforce.Decision{}, nil
	}
	return enforce.Decision{}, fmt.Errorf("%w: %w", ErrUndecided, err)
}

// request reads a call. It has no descriptors when none is to be counted.
func (g *Gate[T]) request(call T) (enforce.Request, error) {
	req := enforce.Request{Domain: g.cfg.Domain, Descriptors: make([]enforce.Descriptor, 0, len(g.cfg.Descriptors))}
	var hits *uint64
	if g.cfg.Cost != nil {
		n := g.cfg.Cost(call)
		hits = &n
	}
next:
	for _, keys := range g.cfg.Descriptors {
		entries := make([]rules.Entry, 0, len(keys))
		for i := range keys {
			k := &keys[i]
			value, err := k.Value(call)
			switch {
			case err != nil:
				return req, &RefusedError{Name: k.Name, Err: err}
			case value == "" && k.Missing == Refuse:
				return req, &RefusedError{Name: k.Name, Err: ErrMissing}
			case value == "" && k.Missing == Skip:
				continue next
			case len(value) > maxValue:
				value = Digest(value)
			}
			entries = append(entries, rules.Entry{Key: k.Name, Value: value})
		}
		req.Descriptors = append(req.Descriptors, enforce.Descriptor{Entries: entries, Hits: hits})
	}
	return req, nil
}
