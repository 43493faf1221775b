package demand

import (
	"container/list"
	"sync/atomic"

	"github.com/quorate/quorate/coordinator/quota"
)

// Observation is one decision over one bucket, as the store answered it.
type Observation struct {
	Key  quota.Key
	Cost quota.Tokens // 0 for a look, and for tokens that are given back
	// Owed is the part of Cost that the bucket need not hold.
	Owed     quota.Tokens
	Admitted bool
	Level    quota.Tokens // after the decision
	Burst    quota.Tokens // of the capacity in force
	Epoch    quota.Epoch  // of the lease in force, 0 without one
	// Blind says that the store did not answer: Level, Burst and Epoch are not known.
	Blind bool
	// Place, when it is there, saves the search for a key that is observed again and
	// again.
	Place *Place
}

// Place is where a tracker has found a key: a zero one is filled by the first observation
// that comes with it. It is of one key and one tracker, and safe for concurrent use.
type Place struct{ at atomic.Pointer[list.Element] }
