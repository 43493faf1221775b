package lease

import (
	"time"

	"github.com/quorate/quorate/coordinator/quota"
)

const (
	// reportGap is the time between two syncs that only report usage: one to
	// two of it.
	reportGap = 100 * quota.Second / 1000
	// urgentGap is the least time between two syncs, so that a burst of urgent
	// keys shares one.
	urgentGap = 5 * quota.Second / 1000
	// Backoff doubles from firstBackoff to lastBackoff, or to an eighth of the
	// TTL where that is less, so that an election costs no lease.
	firstBackoff = 100 * quota.Second / 1000
	lastBackoff  = 2 * quota.Second
	// freeRedirects is how many leader redirects in a row cost no backoff.
	freeRedirects = 2
)

// schedule says when the next sync is due, on the agent's monotonic clock.
type schedule struct {
	started   bool
	sentAt    quota.Micros
	besideAt  quota.Micros // the last message beside an open sync
	renewAt   quota.Micros // when a sync is due though there is nothing to report
	notBefore quota.Micros // backoff
	jitter    float64      // of the next report
	patience  quota.Micros // the longest backoff
	failures  int
	redirects int
}

// Pending says what waits to be reported.
type Pending struct {
	Usage   bool // some key changed
	Urgent  bool // some key needs the coordinator now
	Applied bool // some assignment was applied
}

// NextSync returns how long to wait before the next sync: 0 for at once. While a
// sync is open it returns how long to wait for its answer before calling Failed.
func (k *Keeper) NextSync(now Clock, p Pending) quota.Micros {
	if k.open != nil {
		elapsed, _ := now.since(k.open.clock)
		return max(0, quota.MicrosOf(k.cfg.Timing.Answer)-elapsed)
	}
	return k.schedule.next(now.Mono, p)
}

// NextBeside returns how long to wait before a message beside the open sync may be
// sent (see Beside): 0 for at once; ok is false when none may, or nothing waits.
func (k *Keeper) NextBeside(now Clock, p Pending) (wait quota.Micros, ok bool) {
	if !k.besides() || !p.Usage && !p.Urgent && !p.Applied {
		return 0, false
	}
	s := &k.schedule
	gap := reportGap
	if p.Urgent || p.Applied {
		gap = urgentGap
	}
	return max(0, max(s.sentAt, s.besideAt)+gap-now.Mono), true
}

func (s *schedule) next(now quota.Micros, p Pending) quota.Micros {
	if !s.started {
		return 0
	}
	due := s.renewAt
	if p.Usage {
		due = min(due, s.sentAt+reportGap+quota.Micros(s.jitter*float64(reportGap)))
	}
	if p.Urgent || p.Applied {
		due = min(due, s.sentAt+urgentGap)
	}
	return max(0, max(due, s.notBefore)-now)
}

func (s *schedule) sent(now Clock) {
	s.started = true
	s.sentAt, s.renewAt, s.notBefore = now.Mono, now.Mono, 0
}

// answered spreads the renewals over TTL*U(0.4, 0.6), so that the agents that
// reconnect together after a leader change do not stay together.
func (s *schedule) answered(now Clock, ttl time.Duration, random func() float64) {
	s.failures, s.redirects = 0, 0
	s.jitter = random()
	s.renewAt = s.sentAt + quota.Micros((0.4+0.2*random())*float64(quota.MicrosOf(ttl)))
	s.notBefore = now.Mono
}

func (s *schedule) failed(now Clock, random func() float64) {
	// Half of the backoff is random.
	wait := min(s.patience, firstBackoff<<min(s.failures, 10))
	s.failures++
	s.started = true
	s.renewAt = now.Mono
	s.notBefore = now.Mono + quota.Micros((0.5+0.5*random())*float64(wait))
}

func (s *schedule) redirected(now Clock, random func() float64) {
	s.redirects++
	if s.redirects > freeRedirects {
		s.failed(now, random)
		return
	}
	s.again(now)
}

func (s *schedule) again(now Clock) { s.renewAt, s.notBefore = now.Mono, now.Mono }
