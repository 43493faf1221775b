package planner

import (
	"time"

	"github.com/quorate/quorate/coordinator/quota"
)

// Config tunes a Term. The zero value of every field but Timing is its default.
type Config struct {
	Timing quota.Timing
	// Idle is how long a region may ask for nothing before its lease is
	// recalled; for limits with long periods it is longer. Default 10 s.
	Idle time.Duration
	// BandPPM is the dead band: a lease is not changed for the sake of less than
	// this part of it, or than twice of it where nobody runs out of tokens.
	// Default 50,000 (5 %).
	BandPPM int64
	// ReservePPM is the part of a limit that stays in the pool for newcomers as
	// long as nobody else needs it. Default 20,000 (2 %).
	ReservePPM int64
	// MaxOps bounds the operations of one round. Default 4,096.
	MaxOps int
	// MaxPlans bounds the keys that one round looks at. Default 16,384.
	MaxPlans int
}

func (c Config) withDefaults() Config {
	if c.Timing == (quota.Timing{}) {
		c.Timing = quota.DefaultTiming()
	}
	if c.Idle == 0 {
		c.Idle = 10 * time.Second
	}
	if c.BandPPM == 0 {
		c.BandPPM = 50_000
	}
	if c.ReservePPM == 0 {
		c.ReservePPM = 20_000
	}
	if c.MaxOps == 0 {
		c.MaxOps = 4096
	}
	if c.MaxPlans == 0 {
		c.MaxPlans = 16_384
	}
	return c
}

const (
	// routeAge is how long ago an agent may have been heard to be preferred as
	// the receiver of an assignment, and how long a region may leave an
	// assignment unanswered before the planner stops counting on it.
	routeAge = 2 * quota.Second
	// resendAge keeps an answer from repeating what was pushed to the same agent
	// a moment ago: its confirmation is on its way.
	resendAge = quota.Second / 4
	// retryAge is how long a refused operation is left alone.
	retryAge = quota.Second / 20
	// offerAge is the same for a configuration that has no room yet.
	offerAge = quota.Second
	// shortAge is how soon a key is planned again while somebody starves.
	shortAge = quota.Second / 5
)

// session returns how long after a leadership check a session lives.
func (c Config) session() quota.Micros { return quota.MicrosOf(c.Timing.TTL + c.Timing.Guard) }

// returning is how long agents may take to come back to a new leader: twice their
// longest backoff (package lease).
func (c Config) returning() quota.Micros { return quota.MicrosOf(c.Timing.TTL) / 4 }

// silence returns how long a session may not be heard of before it is marked.
func (c Config) silence() quota.Micros { return 2 * quota.MicrosOf(c.Timing.Tick) }
