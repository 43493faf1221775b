package bucket

import (
	"cmp"

	"github.com/quorate/quorate/coordinator/quota"
)

// Balance is one bucket at one moment, refilled and not yet charged.
type Balance struct {
	Holding Holding
	Level   quota.Tokens
	// Unspent is the part of the elapsed time that has not become tokens yet.
	Unspent  quota.Micros
	Capacity quota.Capacity
	Epoch    quota.Epoch
	// Held is the part of the burst that drawn tokens have: the level gets no higher than
	// beside it.
	Held quota.Tokens
	// Of a sliding window: how long until all places are free, and once something has
	// been admitted now, which is never 0; and how long whoever has just been denied
	// waits, 0 where nobody has asked.
	Reset, Fresh, Wait quota.Micros
	// Back is how much a sliding window can be given back.
	Back quota.Tokens
	// Missing says that there is no record.
	Missing bool
	changed bool // the level is, or was in between, another one than was read
}

// live reports whether the region's session can be relied on at t.
func (r Region) live(t quota.Micros) bool { return r.Session != 0 && t < r.Deadline }

// leased reports whether the record's lease belongs to the region's session.
// That it is in force needs the deadline too.
func (r Region) leased(rec Record) bool {
	return rec.Epoch > 0 && !rec.Released && r.Session != 0 && rec.Session == r.Session
}

// balance refills a bucket to time. found is false when there is no record of
// the region's incarnation; high is time or the region's high-water mark when
// that is later. at is the time the balance refers to.
func (r Region) balance(time, high quota.Micros, rec Record, found bool, st Standing, mode Mode) (b Balance, at quota.Micros) {
	live := r.live(high)
	if found && r.leased(rec) && (live || mode == ModeHold) {
		at = max(time, rec.At)
		b = Balance{Holding: OnLease, Capacity: rec.usable(high), Epoch: rec.Epoch}
		if !live {
			b.Holding, b.Capacity = OnHold, rec.Lease // a loan is never held longer
		}
		b.Level, b.Unspent = rec.refill(b.Capacity, rec.Level, rec.At, at)
		b.Held = rec.held(at)
		return b, at
	}

	b = Balance{Holding: OnStanding, Capacity: st.Capacity}
	if found && rec.Away > st.Since {
		st.Since, st.Base = rec.Away, 0 // the share begins again, empty
		if time < rec.Away {
			st.Rate.Tokens, st.Burst = 0, 0
		}
	}
	switch {
	case !live && mode == ModeDeny:
		b.Holding = Denied
	case !live && mode == ModeAllow:
		b.Holding = Allowed
	case st.Burst <= 0:
		b.Holding = OnNothing
		b.Capacity.Rate.Tokens, b.Capacity.Burst = 0, 0
	}
	if !found {
		// No record to carry a fraction in: the time not spent is given up.
		b.Level, _ = st.Refill(st.Base, time-st.Began())
		b.Missing = true
		return b, time
	}
	at = max(time, rec.At)
	// Cut first: a level above the burst must not survive as "full".
	level := min(rec.Level, st.Burst)
	if rec.At < st.Since {
		// Nobody wrote the record when the share was smaller for a while, so it still
		// shows what was cut then. A bucket that was never touched was cut to Base.
		level = min(level, st.Base)
	}
	b.Level, b.Unspent = rec.refill(st.Capacity, level, max(rec.At, st.Since), at)
	b.Held = rec.held(at)
	return b, at
}

// usable returns what a leased record has at a time: its lease, and what it has
// borrowed until that is over. What accrued of a loan that is over and was not
// written is given up.
func (rec Record) usable(high quota.Micros) quota.Capacity {
	if high < rec.LoanUntil {
		return rec.Lease.Add(rec.Loan)
	}
	return rec.Lease
}

// Judge makes the verdict on an ask. charged says that the take was admitted, so
// that the balance is about to be charged.
func Judge(a *Ask, b Balance, charged bool) Verdict {
	v := Verdict{Holding: b.Holding, Capacity: b.Capacity, Epoch: b.Epoch, Fresh: b.Fresh}
	switch least := a.least(a.Cost); {
	case least == 0 || b.Holding == Allowed:
		v.Admitted = true
	case b.Holding == Denied:
		v.Retry = Forever
	case b.Level >= least:
		v.Admitted = true
	default:
		v.Never = least > b.Capacity.Burst
		v.Retry = wait(b, b.Level, least)
	}
	if charged {
		was := b.Level
		a.charge(&b, a.Cost, 1)
		if a.Settle && a.Cost > 0 && b.Holding != Allowed {
			v.Uncharged = a.Cost - (was - b.Level)
		}
	}
	v.Level, v.Unspent = b.Level, b.Unspent
	v.Full = wait(b, v.Level, b.Capacity.Burst)
	if b.Fresh > 0 && v.Full > 0 {
		v.Full = b.Reset
	}
	return v
}

// wait returns how long from the moment of b a bucket at level needs to hold want.
func wait(b Balance, level, want quota.Tokens) quota.Micros {
	switch {
	case level >= want:
		return 0
	case b.Fresh > 0 && want <= b.Capacity.Burst:
		return max(1, cmp.Or(b.Wait, b.Reset))
	}
	w, ok := b.Capacity.TimeTo(level, want)
	if !ok {
		return Forever
	}
	return max(1, w-b.Unspent)
}

const (
	slack     = quota.Second                // beyond full: for the rounding of the scripts, and for drawn tokens
	leaseLife = 3600 * quota.Second         // an idle lease outlives its refill by this
	maxLife   = 7300 * 86400 * quota.Second // above MaxPeriod: shorter would refill a bucket that time has not
)

// Lifetime returns how long a record must be kept: until it is full both as what
// is in force and as the standing share it may fall back to, because a missing
// record counts as refilled. away is how long that share is on loan still: it
// accrues nothing before. The result is at least a second and at most 20 years.
func Lifetime(level quota.Tokens, inForce, standing quota.Capacity, leased bool, away quota.Micros) quota.Micros {
	life := max(away, 0) + toFull(min(level, standing.Burst), standing)
	if away <= 0 || inForce.Burst > 0 {
		life = max(life, toFull(level, inForce))
	}
	life += slack
	if leased {
		life += leaseLife
	}
	return min(life, maxLife)
}

// life is Lifetime, or as long as the bucket's window lasts.
func (st Standing) life(level quota.Tokens, inForce quota.Capacity, leased bool, away quota.Micros) quota.Micros {
	if st.Lasts > 0 {
		return min(st.Lasts+slack, maxLife)
	}
	return Lifetime(level, inForce, st.Capacity, leased, away)
}

func toFull(level quota.Tokens, c quota.Capacity) quota.Micros {
	if w, ok := c.TimeTo(level, c.Burst); ok {
		return min(w, maxLife)
	}
	return maxLife
}

// Merge returns asks with at most one ask per key: the costs of asks for the
// same key are added, of what they ask for ahead the most counts, and else the first
// one's fields. index[i] is where the verdict on asks[i] will be; it is nil when nothing
// had to be merged.
func Merge(asks []Ask) (merged []Ask, index []int) {
	for i := range asks {
		for j := range i {
			if asks[i].Key == asks[j].Key {
				return merge(asks)
			}
		}
	}
	return asks, nil
}

func merge(asks []Ask) (merged []Ask, index []int) {
	at := make(map[quota.Key]int, len(asks))
	index = make([]int, len(asks))
	for i, a := range asks {
		j, ok := at[a.Key]
		if !ok {
			j = len(merged)
			at[a.Key] = j
			merged = append(merged, a)
		} else {
			merged[j].Cost = max(-quota.MaxTokens, min(merged[j].Cost+a.Cost, quota.MaxTokens))
			merged[j].Ahead = max(merged[j].Ahead, a.Ahead)
		}
		index[i] = j
	}
	return merged, index
}

// Spread undoes Merge on the verdicts. What was drawn ahead is the first one's.
func Spread(verdicts []Verdict, index []int) []Verdict {
	if index == nil {
		return verdicts
	}
	out := make([]Verdict, len(index))
	for i, j := range index {
		out[i] = verdicts[j]
		verdicts[j].Grant = Grant{}
	}
	return out
}
