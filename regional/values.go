package regional

import (
	"sync"

	"github.com/quorate/quorate/coordinator/rules"
)

const (
	// maxValues is how many values of one rule metrics tell apart. They come from
	// requests, so there may be any number of them.
	maxValues = 100
	// otherValues stands for all further ones. No value looks like it: each has its
	// key and a "=".
	otherValues = "other"
)

// values are the values that metrics tell apart, of the rules that ask for it: the
// first maxValues that were seen of each.
type values struct {
	mu     sync.RWMutex
	byRule map[string]*valuesOf // by ID of the rule
}

type valuesOf struct {
	rule *rules.Rule
	seen map[string]string // each value to itself, to be found without an allocation
}

// of returns the label of entries that matched r, empty for a rule that does not ask.
func (v *values) of(r *rules.Rule, entries []rules.Entry) string {
	if !r.MetricValues() {
		return ""
	}
	var buf [256]byte
	text := r.AppendMetricValue(buf[:0], entries)
	v.mu.RLock()
	label, full := v.known(r, text)
	v.mu.RUnlock()
	switch {
	case label != "":
		return label
	case full:
		return otherValues
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	label, full = v.known(r, text)
	switch {
	case label != "":
		return label
	case full:
		return otherValues
	}
	if v.byRule == nil {
		v.byRule = make(map[string]*valuesOf)
	}
	if v.byRule[r.ID] == nil {
		v.byRule[r.ID] = &valuesOf{rule: r, seen: make(map[string]string)}
	}
	label = string(text)
	v.byRule[r.ID].seen[label] = label
	return label
}

// known returns the label that text has already, and whether r can have no more. The
// caller holds mu.
func (v *values) known(r *rules.Rule, text []byte) (label string, full bool) {
	of := v.byRule[r.ID]
	if of == nil {
		return "", false
	}
	return of.seen[string(text)], len(of.seen) >= maxValues
}

// adopted forgets the values of rules that are gone or that tell other entries apart
// than before, and returns the IDs of these rules.
func (v *values) adopted(all []*rules.Rule) (gone []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := make(map[string]*rules.Rule, len(v.byRule))
	for _, r := range all {
		if v.byRule[r.ID] != nil {
			now[r.ID] = r
		}
	}
	for id, of := range v.byRule {
		if r := now[id]; r != nil && r.SameMetric(of.rule) {
			of.rule = r // the old one would keep all its document in memory
			continue
		}
		delete(v.byRule, id)
		gone = append(gone, id)
	}
	return gone
}
