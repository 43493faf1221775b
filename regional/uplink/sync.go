package uplink

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/lease"
)

const (
	// maxReported bounds the confirmations of one request.
	maxReported = 10_000
	// applyBatch bounds the time one call occupies the store.
	applyBatch = 500
)

// sync says one thing to the coordinator and does what the answer allows. Its
// error is handled when it returns: the schedule knows, the log has it.
func (u *Uplink) sync(ctx context.Context) error {
	start := time.Now()
	err := u.exchange(ctx)
	u.metrics.synced(time.Since(start), err)
	return err
}

func (u *Uplink) exchange(ctx context.Context) error {
	// First the connection: the store's time must be read right before sending.
	l, err := u.connected(ctx)
	if err != nil {
		u.broken(err)
		return err
	}
	state, err := u.state(ctx)
	if err == nil && lease.Settles(state, u.cfg.Store.Replaced()) > 0 {
		if err = pause(ctx, settled); err == nil {
			state, err = u.state(ctx)
		}
	}
	if err != nil {
		u.failed(err)
		return err
	}
	now := u.readNow()
	usage, applied := u.cfg.Demand.Collect(now.clock.Mono), u.unconfirmed()
	req := u.keeper.Request(u.readNow().clock, state, lease.Report{
		Replaces: u.cfg.Store.Replaced(), Config: u.cfg.Local.Config(), Usage: usage, Applied: applied,
	})
	u.seen, u.last.Incarnation, u.last.Session = state, state.Incarnation, state.Session
	u.cfg.Local.Saw(state, u.last.Agents)
	if req.Drop {
		err := u.timed(ctx, "drop session in store", func(ctx context.Context) error {
			return u.cfg.Store.Drop(ctx, req.Session)
		})
		if err == nil {
			err = pause(ctx, settled)
		}
		if err != nil {
			u.cfg.Demand.Return(usage)
			u.failed(err)
			return err
		}
	}
	u.confirm, u.hurried, u.fresh, u.last.Problem = false, false, false, ""
	before := u.beside
	u.beside = nil
	if heard, err := u.ask(ctx, l, req); err != nil {
		if !heard {
			for _, lost := range [][]quota.Usage{before, usage, u.beside} {
				u.cfg.Demand.Return(lost)
			}
			u.beside = nil
		}
		u.confirm = u.confirm || len(applied) > 0
		return err
	}
	for _, a := range applied {
		if u.applied[a.Key] == a {
			delete(u.applied, a.Key)
		}
	}
	u.confirm = u.confirm || len(u.applied) > 0
	return nil
}

// settled is how long after a change in the store nothing is in use any more that was
// drawn ahead of it, with room for clocks that differ.
const settled = bucket.DrawSpan + bucket.DrawSpan/10

// pause waits, unless ctx ends before.
func pause(ctx context.Context, d quota.Micros) error {
	timer := time.NewTimer(d.Duration())
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// state reads the region's state.
func (u *Uplink) state(ctx context.Context) (s bucket.State, err error) {
	err = u.timed(ctx, "read region state", func(ctx context.Context) (err error) {
		s, err = u.cfg.Store.State(ctx)
		return err
	})
	return s, err
}

// settle makes the loop say or ask again after a while what it is too early for now.
func (u *Uplink) settle(in quota.Micros) {
	if at := u.readNow().clock.Mono + in; u.settles == 0 || at < u.settles {
		u.settles = at
	}
}

// failed is a sync that failed on this side of the stream.
func (u *Uplink) failed(err error) {
	u.keeper.Failed(u.readNow().clock)
	u.problem(err)
}

// ask sends req and handles what arrives until its answer has. heard says that
// the coordinator took the report although the answer is of no use, so that it
// must not be sent again: reports are added up.
func (u *Uplink) ask(ctx context.Context, l *link, req quota.SyncRequest) (heard bool, err error) {
	if err := u.send(l, req); err != nil {
		u.broken(err)
		return false, err
	}
	for {
		m, lost, err := l.take()
		u.confirm = u.confirm || lost
		if err != nil {
			u.broken(err)
			return false, err
		}
		if m != nil {
			err := u.answer(ctx, *m)
			switch {
			case m.resp.Seq == req.Seq && err != nil:
				u.problem(err)
				if m.resp.Refusal != nil {
					return false, err
				}
				// The answer cannot be used, so neither can this stream.
				u.disconnect()
				return true, err
			case m.resp.Seq == req.Seq:
				return true, nil
			case err != nil && !errors.Is(err, lease.ErrNotAsked):
				u.problem(err)
			}
			continue
		}
		left := u.keeper.NextSync(u.readNow().clock, lease.Pending{}).Duration()
		if left == 0 {
			// The stream is abandoned, so that a late answer cannot come.
			err := fmt.Errorf("sync %d with %s: no answer within %s", req.Seq, l.endpoint, u.cfg.Timing.Answer)
			u.broken(err)
			return false, err
		}
		wait, err := u.report(l)
		if err != nil {
			u.broken(err)
			return false, err
		}
		timer := time.NewTimer(min(left, wait))
		select {
		case <-l.wake:
		case <-timer.C:
		case <-u.urgent:
			u.hurried = true
		case <-ctx.Done():
			timer.Stop()
			u.disconnect()
			u.keeper.Failed(u.readNow().clock)
			return false, ctx.Err()
		}
		timer.Stop()
	}
}

// report sends what has changed beside the sync that waits for its answer, when it
// is time to, and returns when to look again. Over a long way a sync waits most of
// the time, and what it was too early for would wait with it.
func (u *Uplink) report(l *link) (wait time.Duration, err error) {
	now := u.readNow()
	left, ok := u.keeper.NextBeside(now.clock, lease.Pending{
		Usage: u.cfg.Demand.Changed() > 0, Urgent: u.hurried, Applied: u.fresh,
	})
	if !ok || left > 0 {
		if ok {
			return min(left.Duration(), poll), nil
		}
		return poll, nil
	}
	usage := u.cfg.Demand.Collect(now.clock.Mono)
	req, ok := u.keeper.Beside(now.clock, lease.Report{Usage: usage, Applied: u.unconfirmed()})
	if !ok {
		u.cfg.Demand.Return(usage)
		return poll, nil
	}
	u.beside = append(u.beside, usage...)
	u.hurried, u.fresh = false, false
	return poll, u.send(l, req)
}

// send hands one message to the stream. It blocks while the other side does not
// read; then only the end of the stream frees it.
func (u *Uplink) send(l *link, req quota.SyncRequest) error {
	guard := time.AfterFunc(u.cfg.Timing.Answer, l.cancel)
	err := l.send(req)
	if !guard.Stop() && err == nil {
		err = fmt.Errorf("send to %s: %w", l.endpoint, context.DeadlineExceeded)
	}
	return err
}

// answer judges one message and does what it allows.
func (u *Uplink) answer(ctx context.Context, m received) error {
	e, err := u.keeper.Response(m.at.clock, m.resp)
	if err != nil {
		return err
	}
	if e.Agents > 0 {
		u.last.Agents = e.Agents
	}
	if e.Lend != nil {
		if err := u.lend(ctx, e.Incarnation, *e.Lend); err != nil {
			u.problem(err)
			u.confirm = true
			return nil
		}
	}
	if e.Renew != nil {
		if err := u.renew(ctx, e.Incarnation, *e.Renew); err != nil {
			// Without the session no assignment can be applied either.
			u.problem(err)
			u.confirm = true
			return nil
		}
	}
	if e.Adopt != nil {
		u.adopt(ctx, e.Incarnation, *e.Adopt)
	}
	for some := range slices.Chunk(e.Apply, applyBatch) {
		u.apply(ctx, e.Incarnation, some)
	}
	return nil
}

// lend tells the store what it does not know that the region has on loan.
func (u *Uplink) lend(ctx context.Context, incarnation string, l lease.Lend) error {
	asks := make([]bucket.LendAsk, len(l.Keys))
	for i, k := range l.Keys {
		asks[i] = bucket.LendAsk{Key: k, Share: u.cfg.Local.Standing(incarnation, k, u.seen.Now).Capacity}
	}
	return u.timed(ctx, fmt.Sprintf("take over %d loans", len(asks)), func(ctx context.Context) error {
		return u.cfg.Store.Lend(ctx, incarnation, asks, l.Span)
	})
}

func (u *Uplink) renew(ctx context.Context, incarnation string, r lease.Renew) error {
	if r.First && !(u.seen.First && u.seen.Incarnation == incarnation) {
		if err := u.timed(ctx, "mark first incarnation", func(ctx context.Context) error {
			return u.cfg.Store.MarkFirst(ctx, incarnation)
		}); err != nil {
			return err
		}
	}
	if err := u.timed(ctx, fmt.Sprintf("renew session %d", r.Session), func(ctx context.Context) error {
		return u.cfg.Store.Renew(ctx, incarnation, r.Session, r.Deadline)
	}); err != nil {
		return err
	}
	if u.last.Session != r.Session {
		// What was applied in an older session need not be confirmed any more.
		maps.DeleteFunc(u.applied, func(_ quota.Key, a quota.Applied) bool { return a.Session < r.Session })
		u.last.Session = r.Session
	}
	if u.seen.Session == r.Session {
		r.Deadline = max(r.Deadline, u.seen.Deadline)
	}
	u.seen.Session, u.seen.Deadline = r.Session, r.Deadline
	u.cfg.Local.Saw(u.seen, u.last.Agents)
	u.metrics.session.Set(float64(r.Session))
	return nil
}

func (u *Uplink) adopt(ctx context.Context, incarnation string, c quota.Config) {
	if err := u.timed(ctx, fmt.Sprintf("adopt configuration %d", c.Version), func(ctx context.Context) error {
		return u.cfg.Local.Adopt(ctx, incarnation, c)
	}); err != nil {
		u.problem(err)
	}
}

// follow notices when decisions are made by another configuration, whoever had the
// region adopt it, and has the coordinator hear of it.
func (u *Uplink) follow() {
	was, now := u.config, u.cfg.Local.Config()
	switch u.config = now; {
	case now == was:
	case was == 0:
		u.confirm = true // nothing was drawn before
	default:
		u.settle(settled)
	}
}

func (u *Uplink) apply(ctx context.Context, incarnation string, some []lease.Apply) {
	asks := make([]bucket.ApplyAsk, len(some))
	for i, a := range some {
		asks[i] = bucket.ApplyAsk{
			Assignment: a.Assignment, Standing: u.cfg.Local.Standing(incarnation, a.Key, u.seen.Now), LoanUntil: a.LoanUntil,
		}
	}
	var done []quota.Applied
	err := u.timed(ctx, "apply assignments", func(ctx context.Context) (err error) {
		done, err = u.cfg.Store.Apply(ctx, incarnation, asks)
		return err
	})
	u.metrics.applied(len(some), len(done), err)
	if err != nil && !refused(err) {
		// They are repeated until they are confirmed.
		u.problem(err)
	}
	if errors.Is(err, bucket.ErrSettling) {
		u.settle(settles(some, done))
	}
	for _, a := range done {
		u.applied[a.Key] = a
		u.confirm, u.fresh = true, true
		u.Notify(a.Key)
	}
}

// settles is how long it takes until the first of those is settled that were applied
// but not done: what was lent, or what leaves less than is drawn ahead.
func settles(some []lease.Apply, done []quota.Applied) quota.Micros {
	for _, a := range some {
		if a.Lend == 0 && !slices.ContainsFunc(done, func(d quota.Applied) bool { return d.Key == a.Key }) {
			return settled
		}
	}
	return bucket.Notice + quota.Second/10
}

// refused reports whether the store only refused because of what it holds, which
// is ordinary: the assignment is old, or belongs to a session that has ended.
func refused(err error) bool {
	return !errors.Is(err, enforce.ErrStoreDown) &&
		(errors.Is(err, bucket.ErrOldSession) || errors.Is(err, bucket.ErrStaleEpoch) ||
			errors.Is(err, bucket.ErrExpired) || errors.Is(err, bucket.ErrOldConfig) || errors.Is(err, bucket.ErrIncarnation) || errors.Is(err, bucket.ErrSettling))
}

// unconfirmed returns what was applied and not yet heard by the coordinator.
func (u *Uplink) unconfirmed() []quota.Applied {
	out := slices.SortedFunc(maps.Values(u.applied), func(a, b quota.Applied) int {
		return strings.Compare(string(a.Key), string(b.Key))
	})
	return out[:min(len(out), maxReported)]
}
