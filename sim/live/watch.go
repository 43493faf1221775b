package live

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
)

// Watch looks at the coordinators again and again, as an operator would, over
// connections that no cut touches.
type Watch struct {
	world *World
	track *Track

	cancel  context.CancelFunc
	running sync.WaitGroup

	mu  sync.Mutex
	now Sight
}

// Sight is what a Watch last saw.
type Sight struct {
	// Leader and Term are of the newest leader that was seen; Leading says that
	// it was there at the last look.
	Leader  string
	Term    uint64
	Leading bool
	// Changes is how many times another leader, or another term, was seen.
	Changes int
	// Leases are what each region holds of the track's limit.
	Leases map[string]Lease
	// Pool is what no region holds.
	Pool quota.Capacity
}

// Lease is what a region holds of one limit.
type Lease struct {
	Capacity quota.Capacity
	// Standing says that the region holds its standing share only.
	Standing bool
}

// Watch starts looking; Stop or Close of the World ends it.
func (w *World) Watch(track *Track) *Watch {
	ctx, cancel := context.WithCancel(context.Background())
	watch := &Watch{world: w, track: track, cancel: cancel}
	watch.running.Go(func() { watch.loop(ctx) })
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closers = append(w.closers, func() error { watch.Stop(); return nil })
	return watch
}

// Stop ends the watch.
func (v *Watch) Stop() {
	v.cancel()
	v.running.Wait()
}

// Sight returns what was last seen.
func (v *Watch) Sight() Sight {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.now
	s.Leases = maps.Clone(s.Leases)
	return s
}

func (v *Watch) loop(ctx context.Context) {
	ticker := time.NewTicker(250 * time.Millisecond)
	defer ticker.Stop()
	for {
		v.look(ctx)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (v *Watch) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	leader, err := v.world.Leader(ctx)
	if err != nil {
		v.mu.Lock()
		v.now.Leading = false
		v.mu.Unlock()
		return
	}
	status, err := leader.Status(ctx)
	if err != nil {
		return // it has just gone; the next look sees that
	}
	v.mu.Lock()
	if v.now.Term != 0 && (v.now.Leader != leader.Name || v.now.Term != status.GetTerm()) {
		v.now.Changes++
	}
	v.now.Leader, v.now.Term, v.now.Leading = leader.Name, status.GetTerm(), true
	v.mu.Unlock()
	if v.track == nil {
		return
	}
	request := &quoratev1.ExplainRequest{Domain: v.track.Identity.Domain}
	for _, e := range v.track.Identity.Entries {
		request.Entries = append(request.Entries, &quoratev1.Entry{Key: e.Key, Value: e.Value})
	}
	answer, err := leader.Admin().Explain(ctx, request)
	if err != nil || len(answer.GetLimits()) == 0 {
		return
	}
	account := answer.GetLimits()[0].GetAccount()
	leases := map[string]Lease{}
	for _, h := range account.GetHolders() {
		held := h.GetLease()
		if !h.GetHoldsLease() {
			held = h.GetStandingShare()
		}
		leases[h.GetRegion()] = Lease{Capacity: capacityOf(held), Standing: !h.GetHoldsLease()}
	}
	v.mu.Lock()
	v.now.Leases, v.now.Pool = leases, capacityOf(account.GetPool())
	v.mu.Unlock()
}

// capacityOf reads what is only shown, so it checks nothing.
func capacityOf(c *quoratev1.Capacity) quota.Capacity {
	return quota.Capacity{
		Rate:  quota.Rate{Tokens: quota.Tokens(c.GetRate().GetMicrotokens()), Per: quota.Micros(c.GetRate().GetPerUs())},
		Burst: quota.Tokens(c.GetBurstMicrotokens()),
	}
}
