package report

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// ErrApart means that sweeps are no parts of one: their seeds or commits do not
// fit together.
var ErrApart = errors.New("these are no parts of one sweep")

// Merge makes one sweep of its parts, in any order: those of one commit whose seeds
// follow each other without gap and overlap.
func Merge(parts []Sweep) (Sweep, error) {
	parts = slices.Clone(parts)
	slices.SortStableFunc(parts, func(a, b Sweep) int { return cmp.Compare(a.First, b.First) })
	whole := parts[0]
	whole.Sweep = whole.Sweep.Clone()
	for _, p := range parts[1:] {
		switch next := whole.First + uint64(whole.Seeds); {
		case p.Commit != whole.Commit:
			return Sweep{}, fmt.Errorf("%w: one was made by commit %s, another by %s", ErrApart, whole.Commit, p.Commit)
		case p.First > next:
			return Sweep{}, fmt.Errorf("%w: seeds %d to %d are missing", ErrApart, next, p.First-1)
		case p.First < next:
			return Sweep{}, fmt.Errorf("%w: seed %d is in two of them", ErrApart, p.First)
		}
		whole.Add(p.Sweep)
		whole.TookS += p.TookS
		whole.Partial = p.Partial
		whole.Date = min(whole.Date, p.Date)
		if p.CPU != whole.CPU {
			whole.CPU = "several machines"
		}
		if p.Go != whole.Go {
			whole.Go = "several versions of Go"
		}
	}
	return whole, nil
}
