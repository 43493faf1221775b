package bucket

import (
	"slices"

	"github.com/quorate/quorate/coordinator/quota"
)

// Entry is what was admitted in a sliding log at one microsecond.
type Entry struct {
	At   quota.Micros
	Cost quota.Tokens
}

// log is a sliding log: each admission keeps its places from its moment until a window
// later, exactly. It is in the order of time, with one entry for a microsecond, so that
// no admission hides another (case K15).
type log []Entry

// at leaves out what is over at now: a window later to the microsecond.
func (l log) at(now, length quota.Micros) log {
	n := 0
	for n < len(l) && l[n].At <= now-length {
		n++
	}
	return l[n:]
}

func (l log) occupied() (sum quota.Tokens) {
	for _, e := range l {
		sum += e.Cost
	}
	return sum
}

// add notes what is admitted at now. A time before the last entry's is that of a clock
// which has stepped back: then it counts as the last, and so is over later.
func (l log) add(now quota.Micros, cost quota.Tokens) log {
	if n := len(l); n > 0 && l[n-1].At >= now {
		l[n-1].Cost += cost
		return l
	}
	return append(l, Entry{now, cost})
}

// back gives back the youngest admissions, up to cost.
func (l log) back(cost quota.Tokens) log {
	for n := len(l); n > 0 && cost > 0; n = len(l) {
		if l[n-1].Cost > cost {
			l[n-1].Cost -= cost
			break
		}
		cost -= l[n-1].Cost
		l = l[:n-1]
	}
	return l
}

// wait returns how long from now until need places are free that are not.
func (l log) wait(now, length quota.Micros, need quota.Tokens) quota.Micros {
	for _, e := range l {
		if need -= e.Cost; need <= 0 {
			return e.At - (now - length)
		}
	}
	return Forever
}

// over returns how long from now until all places are free.
func (l log) over(now, length quota.Micros) quota.Micros {
	if len(l) == 0 {
		return 0
	}
	return l[len(l)-1].At - (now - length)
}

func (l log) clone() log { return slices.Clone(l) }
