package sim

import (
	"math"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/sim/check"
)

// meters are what the admissions of one key, or of one fixed window of it, are held against.
type meters struct {
	meter interface {
		Admit(at quota.Micros, cost quota.Tokens)
		GiveBack(at quota.Micros, cost quota.Tokens)
		Admitted() quota.Tokens
		Headroom(now quota.Micros) quota.Tokens
		Worst() quota.Tokens
	}
	ideal interface {
		Offer(at quota.Micros, cost quota.Tokens) bool
		Admit(at quota.Micros, cost quota.Tokens)
		GiveBack(at quota.Micros, cost quota.Tokens)
		Admitted() quota.Tokens
	}
	spare interface {
		Admit(at quota.Micros, cost quota.Tokens)
		GiveBack(at quota.Micros, cost quota.Tokens)
		Deny(at quota.Micros, cost quota.Tokens) bool
		Denied() quota.Tokens
	}
}

// bucketMeters are those of one central bucket.
func bucketMeters(limit quota.Capacity, driftPPM int64) meters {
	return meters{check.NewMeter(audited(limit, driftPPM)), check.NewIdeal(limit), check.NewSpare(limit)}
}

// metersOf returns those of a key: of one central bucket, or one central log. A region's
// clock may be driftPPM too fast, and so its window that much shorter; a microsecond more
// because clocks are read in whole ones. A sliding counter may admit e times its limit,
// see bucket.Count.
func metersOf(k *key, driftPPM int64) meters {
	limit := k.limit.Capacity
	if k.limit.Window == 0 {
		return bucketMeters(limit, driftPPM)
	}
	most, length := limit.Burst, k.limit.Window
	if k.first.Algorithm == rules.SlidingWindowCounter {
		most = quota.Tokens(math.Ceil(math.E * float64(most)))
	}
	if driftPPM > 0 {
		length -= length*2*quota.Micros(driftPPM)/quota.PPM + 2
	}
	return meters{check.NewPlaces(most, length), check.NewPlaces(limit.Burst, k.limit.Window), check.NewPlaces(limit.Burst, k.limit.Window)}
}

// evenly is the part of a rate that a region can serve which has as many places of a
// sliding window as it needs on average: the arrivals of a window vary, and what comes
// while all places are occupied is denied. Of a places that is a part of some
// sqrt(2/(pi*a)), Erlang's formula for as many servers as there is work. A bucket of a
// few windows would even that out; a window by definition does not. A twentieth more is
// on its way from one region to another, where nobody can use it: what a region has to give
// up it gives up only as it moves out of the window, a band at a time, so at every moment
// some of it has left one region and is not confirmed in the other yet.
func evenly(l quota.Limit, perSecond float64) float64 {
	if l.Window == 0 {
		return 1
	}
	places := max(1, perSecond*float64(l.Window)/float64(quota.Second))
	return 0.95 * (1 - math.Sqrt(2/(math.Pi*places)))
}

// crowded is the part of a limit that a region takes that asks for perSecond and is to
// get it, in tokens a second: in a sliding window, where nothing can be saved for later,
// it needs places for the arrivals of a window and for how much these vary, which is the
// root of their number (a Poisson process). Others do without those places.
func crowded(l quota.Limit, perSecond float64) float64 {
	if l.Window == 0 {
		return perSecond
	}
	window := float64(l.Window) / float64(quota.Second)
	return perSecond + math.Sqrt(perSecond*window)/window
}
