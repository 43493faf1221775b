package demand

import "github.com/quorate/quorate/coordinator/quota"

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
}
