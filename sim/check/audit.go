package check

import (
	"cmp"
	"slices"

	"github.com/quorate/quorate/coordinator/quota"
)

// Admission is one admitted request: it happened at some moment between Sent
// and Answered, both on the auditor's clock.
type Admission struct {
	Cost           quota.Tokens
	Sent, Answered quota.Micros
}

// Report is what an audit of one key found.
type Report struct {
	Admissions int
	Admitted   quota.Tokens
	// Certain, Raw and Possible are the worst overshoot over every window,
	// rounded up, at least zero: as proven, by the time of the answer, and at
	// most. See the package comment.
	Certain, Raw, Possible quota.Tokens
	// Headroom is the smallest distance to the Bound by the time of the answer,
	// negative when Raw is positive.
	Headroom quota.Tokens
}

// Broken reports whether the Bound was broken beyond doubt.
func (r Report) Broken() bool { return r.Certain > 0 }

// Audit measures the admissions of one key, in any order, against its limit.
// rhoPPM allows for the difference of the clock rates of the audited and the
// auditor, in parts per million: the rate counts that much more, rounded up.
// It takes O(n log n) time.
func Audit(limit quota.Capacity, rhoPPM int64, admissions []Admission) Report {
	limit.Rate.Tokens = product(int64(limit.Rate.Tokens), quota.PPM+max(0, rhoPPM)).ceilOver(quota.PPM)
	list := slices.Clone(admissions)
	for i := range list {
		// An answer before its request is an error of the clock; the admission is
		// then taken to have happened at the later of the two.
		list[i].Answered = max(list[i].Sent, list[i].Answered)
	}
	slices.SortFunc(list, func(a, b Admission) int { return cmp.Compare(a.Answered, b.Answered) })

	meter := NewMeter(limit)
	for _, a := range list {
		meter.Admit(a.Answered, a.Cost)
	}
	report := Report{
		Admissions: len(list), Admitted: meter.Admitted(),
		Raw: max(0, -meter.Worst()), Headroom: meter.Worst(),
	}
	sent := func(a Admission) quota.Micros { return a.Sent }
	answered := func(a Admission) quota.Micros { return a.Answered }
	report.Certain = worstWindow(limit, list, sent, answered)
	report.Possible = worstWindow(limit, list, answered, sent)
	return report
}

// worstWindow returns the largest overshoot over the windows [x, y], x <= y, when
// a window counts the admissions with begin >= x and end <= y. With begin the
// time sent and end the time answered these are the ones that lie within it;
// the other way round they are the ones that touch it.
//
// It sweeps y over the ends in order. A tree over the candidates for x holds,
// for each, the costs counted so far plus R*x/U; an admission that enters adds
// its cost to all x <= begin, and the largest value over x <= y, less B + R*y/U,
// is the worst window that ends at y.
func worstWindow(limit quota.Capacity, list []Admission, begin, end func(Admission) quota.Micros) quota.Tokens {
	if len(list) == 0 {
		return 0
	}
	exact := newBucket(limit)
	rate, per := int64(exact.limit.Rate.Tokens), int64(exact.limit.Rate.Per)
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b Admission) int { return cmp.Compare(end(a), end(b)) })

	starts := make([]quota.Micros, 0, 2*len(list))
	for _, a := range list {
		starts = append(starts, begin(a), end(a))
	}
	slices.Sort(starts)
	starts = slices.Compact(starts)
	origin := starts[0]
	values := make([]wide, len(starts))
	for i, x := range starts {
		values[i] = product(rate, int64(x-origin))
	}
	tree := newMaxTree(values)

	var worst wide
	for i, a := range list {
		tree.add(rank(starts, begin(a)), exact.costOf(a.Cost))
		y := end(a)
		if i+1 < len(list) && end(list[i+1]) == y {
			continue
		}
		over := tree.max(rank(starts, y)).minus(exact.full).minus(product(rate, int64(y-origin)))
		if worst.less(over) {
			worst = over
		}
	}
	return worst.ceilOver(per)
}

// rank returns the number of starts that are at most x.
func rank(starts []quota.Micros, x quota.Micros) int {
	n, found := slices.BinarySearch(starts, x)
	if found {
		n++
	}
	return n
}
