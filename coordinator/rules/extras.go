package rules

import (
	"math"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/quorate/quorate/coordinator/quota"
)

// quota reads what envoyproxy/ratelimit does not have. It returns the fields whose
// sense depends on the rest of the limit; burst and debt only if they are numbers.
func (w *walk) quota(f field, l *Limit) (x extras) {
	for _, f := range w.mapping(f.value, f.trail, levelQuota, quotaKeys) {
		switch f.name {
		case "algorithm":
			x.algorithm = f
			if i, ok := w.choice(f, algorithmNames, false); ok {
				l.Algorithm = Algorithm(i)
			}
		case "shape":
			x.shape, l.Shape = f, w.boolean(f)
		case "burst":
			if v, ok := w.integer(f, 0, quota.MaxWhole); ok {
				x.burst, l.Burst = f, quota.Whole(v)
			}
		case "max_debt":
			if v, ok := w.integer(f, 0, quota.MaxWhole); ok {
				x.debt, l.MaxDebt = f, quota.Whole(v)
			}
		case "settle":
			x.settle, l.Settle = f, w.boolean(f)
		case "align":
			x.align = f
			w.alignment(f, l)
		case "time_zone":
			x.zone = f
			w.zone(f, l)
		case "standing_share":
			l.Standing, _ = w.millionths(f)
		case "on_disconnect":
			i, _ := w.choice(f, onDisconnectNames, false)
			l.OnDisconnect = OnDisconnect(i)
		case "on_store_failure":
			i, _ := w.choice(f, onStoreFailureNames, false)
			l.OnStoreFailure = OnStoreFailure(i)
		case "cold_start_wait":
			l.ColdStartWait = w.wait(f)
		case "weights":
			l.Weights = w.weights(f)
		}
	}
	w.shaped(x.shape, x.algorithm, l)
	return x
}

func (w *walk) wait(f field) time.Duration {
	n := f.value
	if n.Kind == yaml.ScalarNode && !isNull(n) {
		d, err := time.ParseDuration(n.Value)
		switch {
		case err == nil && d >= 0 && d <= MaxColdStartWait:
			return d
		case err == nil:
			w.problem(n, f.trail, "%s must be from 0s to %v, not %s", f.trail.what(), MaxColdStartWait, quoted(n.Value))
			return 0
		}
	}
	w.problem(n, f.trail, "%s must be a duration with its unit like 250ms, not %s", f.trail.what(), describe(n))
	return 0
}

// weights reads the weight of each region. Whether the regions exist is not
// known here: the share table changes without the rules.
func (w *walk) weights(f field) map[string]int64 {
	var weights map[string]int64
	for _, f := range w.mapping(f.value, f.trail, levelWeights, nil) {
		if f.name == "" {
			w.problem(f.key, f.trail, "`weights` has an empty region name")
			continue
		}
		if v, ok := w.integer(f, 0, quota.MaxWeight); ok {
			if weights == nil {
				weights = map[string]int64{}
			}
			weights[f.name] = int64(v)
		}
	}
	return weights
}

// metadata reads free-form data that goes into replies, as JSON can hold it.
func (w *walk) metadata(f field) map[string]any {
	if isNull(f.value) {
		return nil
	}
	m, _ := w.object(f, 1).(map[string]any)
	return m
}

// value reads any YAML value as JSON would hold it.
func (w *walk) value(f field, depth int) any {
	if depth > MaxDepth {
		w.problem(f.value, f.trail, "`metadata` is nested deeper than %d", MaxDepth)
		return nil
	}
	n := f.value
	switch n.Kind {
	case yaml.MappingNode:
		return w.object(f, depth)
	case yaml.SequenceNode:
		items := []any{}
		for _, item := range w.list(f) {
			items = append(items, w.value(item, depth+1))
		}
		return items
	case yaml.ScalarNode:
		return w.datum(f)
	}
	w.problem(n, f.trail, "`metadata` cannot hold %s", describe(n))
	return nil
}

func (w *walk) object(f field, depth int) any {
	object := map[string]any{}
	for _, g := range w.mapping(f.value, f.trail, levelMetadata, nil) {
		object[g.name] = w.value(g, depth+1)
	}
	return object
}

func (w *walk) datum(f field) any {
	n := f.value
	var err error
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		return n.Value
	case "!!null":
		return nil
	case "!!bool":
		var v bool
		if err = n.Decode(&v); err == nil {
			return v
		}
	case "!!int":
		var v int64
		if err = n.Decode(&v); err == nil {
			return v
		}
	case "!!float":
		var v float64
		if err = n.Decode(&v); err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
			return v
		}
	}
	w.problem(n, f.trail, "%s cannot be written as JSON; put it in quotes to make it text", describe(n))
	return nil
}
