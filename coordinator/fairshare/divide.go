package fairshare

import (
	"math/bits"
	"slices"
)

// Claim is what one claimant asks for.
type Claim struct {
	Weight int64 // at least 1; less counts as 1
	Want   int64 // it never gets more, unless Floor is larger
	Floor  int64 // it never gets less, even when the floors exceed the total
	// Rank decides between claimants that have equally little: the larger goes
	// first. See Rank.
	Rank uint64
}

func (c Claim) floor() int64   { return max(c.Floor, 0) }
func (c Claim) want() int64    { return max(c.Want, c.floor()) }
func (c Claim) weight() uint64 { return uint64(max(c.Weight, 1)) }

// Divide appends to got what each claimant gets of total, in the order of the
// claims, and returns the extended slice. The sum is exactly total; it is less
// only when all wants are met, and more only when the floors are. All amounts
// together must fit an int64. It takes O(n log n).
func Divide(got []int64, total int64, claims []Claim) []int64 {
	var floors, wants int64
	for _, c := range claims {
		floors += c.floor()
		wants += c.want()
	}
	for _, c := range claims {
		if wants <= total {
			got = append(got, c.want())
		} else {
			got = append(got, c.floor())
		}
	}
	if wants > total && floors < total {
		fill(got[len(got)-len(claims):], total, claims)
	}
	return got
}

// fill divides a total between the sum of the floors and the sum of the wants.
func fill(got []int64, total int64, claims []Claim) {
	mark := highest(total, claims)
	left, weight := total, uint64(0)
	for _, c := range claims {
		if c.open(mark) {
			weight += c.weight()
		} else {
			left -= c.at(mark)
		}
	}
	// Between this mark and the next nobody begins or ceases to take water, so
	// the continuous level is left/weight. Rounding down at the mark itself can
	// leave that a little below the mark.
	surface := mark
	if l := (level{uint64(max(left, 0)), weight}); weight > 0 && l.compare(mark) > 0 {
		surface = l
	}
	for i, c := range claims {
		got[i] = c.at(surface)
		total -= got[i]
	}
	drip(got, total, claims) // less than one unit for each
}

// level is a height of the water: units per weight, as a fraction.
type level struct{ units, weight uint64 }

func (l level) compare(m level) int {
	ahi, alo := bits.Mul64(l.units, m.weight)
	bhi, blo := bits.Mul64(m.units, l.weight)
	switch {
	case ahi < bhi || ahi == bhi && alo < blo:
		return -1
	case ahi > bhi || alo > blo:
		return 1
	}
	return 0
}

// begins and ceases are the levels at which a vessel takes water.
func (c Claim) begins() level { return level{uint64(c.floor()), c.weight()} }
func (c Claim) ceases() level { return level{uint64(c.want()), c.weight()} }

func (c Claim) open(at level) bool {
	return c.begins().compare(at) <= 0 && at.compare(c.ceases()) < 0
}

// at returns what c holds at a level, in whole units.
func (c Claim) at(l level) int64 {
	hi, lo := bits.Mul64(l.units, c.weight())
	if hi >= l.weight {
		return c.want()
	}
	units, _ := bits.Div64(hi, lo, l.weight)
	return max(int64(min(units, uint64(c.want()))), c.floor())
}

// highest returns the highest level at which some vessel begins or ceases to
// take water and which total still reaches.
func highest(total int64, claims []Claim) level {
	var few [32]level // enough for 16 regions without allocation
	marks := few[:0]
	for _, c := range claims {
		marks = append(marks, c.begins(), c.ceases())
	}
	slices.SortFunc(marks, level.compare)
	reached, end := 0, len(marks)
	for reached < end {
		mid := (reached + end) / 2
		var need int64
		for _, c := range claims {
			need += c.at(marks[mid])
		}
		if need <= total {
			reached = mid + 1
		} else {
			end = mid
		}
	}
	if reached == 0 {
		return level{0, 1}
	}
	return marks[reached-1]
}
