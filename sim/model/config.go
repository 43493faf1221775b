package model

import (
	"errors"
	"fmt"
)

// The widest numbers a packed state has room for; see key.go.
const (
	maxAmount = 3 // rate, burst
	maxTTL    = 3 // the lifetime a region counts
	maxTimer  = 6 // the lifetime the leader counts
)

// Config is one small world: two regions that share one key.
type Config struct {
	// Limit is the rate R, in tokens per tick, and the burst B, in tokens.
	Limit Capacity
	// Shares are the standing shares. Equal ones halve the space: the regions
	// are then interchangeable.
	Shares [2]Capacity
	// TTL is how many ticks a session lives after its sync was sent, as a region
	// counts. The leader counts Guard ticks more, from its leadership check.
	TTL, Guard int
	// Resets lets the regions' stores lose their data.
	Resets bool
	// Silence lets the leader mark sessions silent.
	Silence bool
	// Bug is the one rule that is broken, none by default.
	Bug Bug
	// BoundOnly checks nothing but the Bound, so that a bug is followed until it
	// overspends instead of being reported where the ledger's sums go wrong.
	BoundOnly bool
	// MaxStates ends the exploration when so many states are known; 0 stands for
	// no end.
	MaxStates int
}

// Validate returns all that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	add := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	zero := Capacity{}
	add(!c.Limit.covers(zero) || c.Limit.Rate > maxAmount || c.Limit.Burst > maxAmount,
		"limit %v: rate and burst must be 0 to %d", c.Limit, maxAmount)
	for i, s := range c.Shares {
		add(!s.covers(zero), "standing share of %s is %v: it must not be negative", name(i), s)
	}
	add(!c.Limit.covers(c.Shares[0].plus(c.Shares[1])), "standing shares %v exceed the limit %v", c.Shares, c.Limit)
	add(c.TTL < 1 || c.TTL > maxTTL, "TTL %d: it must be 1 to %d ticks", c.TTL, maxTTL)
	add(c.Guard < 0 || c.TTL+c.Guard > maxTimer, "guard %d: TTL and guard must be at most %d ticks", c.Guard, maxTimer)
	add(c.Bug >= bugs, "bug %d is not known", c.Bug)
	add(c.MaxStates < 0, "at most %d states: it must not be negative", c.MaxStates)
	return errors.Join(errs...)
}

// life is how long the leader lets a session live.
func (c *Config) life() int8 { return int8(c.TTL + c.Guard) }

// alike reports whether exchanging the regions changes nothing.
func (c *Config) alike() bool { return c.Shares[0] == c.Shares[1] }

// Bug is a rule of the kernel that the model leaves out.
type Bug uint8

// The bugs. Each names what is done instead of the rule.
const (
	NoBug Bug = iota
	// GrowBeforeShrink counts only the new lease of an assignment in flight.
	GrowBeforeShrink
	// CreditAboveGrowth lets tokens travel without the burst that bounds them.
	CreditAboveGrowth
	// RefundAtExpiry returns tokens to the pool when a session ends.
	RefundAtExpiry
	// ExpiryFromReceive counts a session from the answer, not from the question.
	ExpiryFromReceive
	// NoLeadershipCheck lets a deposed leader renew a session.
	NoLeadershipCheck
	// NewLeaderKeepsTimers counts a session from its opening, which is all that a
	// new leader can read in the log, instead of anew.
	NewLeaderKeepsTimers
	// ClockJumpsAtElection adds a tick to the ledger clock that never passed.
	ClockJumpsAtElection
	// LateApply applies an assignment after the session's deadline.
	LateApply
	// SyncReplacesLiveSession opens a session beside the live one.
	SyncReplacesLiveSession
	// MissingIsFull starts a new incarnation with a full standing share.
	MissingIsFull
	// NoStandingDeducted leaves the share of a region without a lease in the pool.
	NoStandingDeducted
	// ApplyTwice adds the credit again when an assignment is delivered again.
	ApplyTwice
	// RenewWhileSilent answers a silent session before the mark is cleared.
	RenewWhileSilent
	bugs
)

var bugNames = [bugs]string{
	"none", "growBeforeShrink", "creditAboveGrowth", "refundAtExpiry", "expiryFromReceive", "noLeadershipCheck",
	"newLeaderKeepsTimers", "clockJumpsAtElection", "lateApply", "syncReplacesLiveSession", "missingIsFull",
	"noStandingDeducted", "applyTwice", "renewWhileSilent",
}

// Bugs returns every bug.
func Bugs() []Bug {
	var all []Bug
	for b := NoBug + 1; b < bugs; b++ {
		all = append(all, b)
	}
	return all
}

func (b Bug) String() string {
	if b < bugs {
		return bugNames[b]
	}
	return fmt.Sprintf("bug %d", uint8(b))
}
