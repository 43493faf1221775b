package rules

import "strings"

var descriptorKeys = []string{
	"key", "value", "rate_limit", "rate_limits", "shadow_mode", "quota_mode", "detailed_metric",
	"value_to_metric", "denial_log_values", "share_threshold", "hash_value", "allow_override", "metadata", "descriptors",
}

// descriptors reads a list of descriptors into the children of parent.
func (w *walk) descriptors(f field, domain string, parent *node, depth int) {
	if depth > MaxDepth {
		w.problem(f.key, f.trail, "descriptors are nested deeper than %d", MaxDepth)
		return
	}
	for _, item := range w.list(f) {
		w.descriptor(item, domain, parent, depth)
	}
	parent.indexDigests()
}

func (w *walk) descriptor(item field, domain string, parent *node, depth int) {
	n := &node{file: w.file, line: item.value.Line}
	rule := &Rule{Domain: domain, File: w.file, Line: item.value.Line, node: n, NoOverride: w.noOverride}
	var nested, single, several, share, hash, override field
	at := item
	keyed, sound := false, true
	for _, f := range w.mapping(item.value, item.trail, levelDescriptor, descriptorKeys) {
		ok := true
		switch f.name {
		case "key":
			keyed, at = true, f
			n.key, ok = w.descriptorKey(f)
		case "value":
			n.value, ok = w.text(f)
		case "rate_limit":
			single = f
		case "rate_limits":
			several = f
		case "shadow_mode":
			rule.Shadow = w.boolean(f)
		case "quota_mode":
			rule.QuotaMode = w.boolean(f)
		case "detailed_metric":
			rule.DetailedMetric = w.boolean(f)
		case "value_to_metric":
			n.valued = w.boolean(f)
			rule.ValueToMetric = n.valued
		case "denial_log_values":
			rule.DenialLogValues = w.boolean(f)
		case "share_threshold":
			share = f
			n.share = w.boolean(f)
		case "hash_value":
			hash = f
			n.hash = w.boolean(f)
		case "allow_override":
			override, rule.NoOverride = f, !w.boolean(f)
		case "metadata":
			rule.Metadata = w.metadata(f)
		case "descriptors":
			nested = f
		}
		sound = sound && ok
	}
	if !keyed && w.isMapping(item) {
		w.problem(item.value, item.trail, "`key` is missing; a descriptor needs the key of a request entry")
	}
	if n.share && !strings.Contains(n.value, "*") {
		w.problem(share.key, share.trail, "`share_threshold` needs a `value` with a `*`: it makes all values of a pattern share one limit")
	}
	if n.share && n.hash {
		w.problem(hash.key, hash.trail, "`hash_value` and `share_threshold` exclude each other; with `share_threshold` the pattern is counted, and no value is kept")
	}
	if override.value != nil && single.value == nil && several.value == nil {
		w.problem(override.key, override.trail, "`allow_override` needs a limit beside it; put it beside `domain` for requests that no rule matches")
	}
	rule.ShareThreshold, rule.HashValue = n.share, n.hash
	if sound && n.key != "" {
		if first := parent.exact[Entry{n.key, n.value}]; first != nil {
			w.problem(at.value, at.trail, "the descriptor %s appears twice at this level; it is already %s", quoted(n.label()), w.place(first))
		} else {
			parent.add(n)
		}
	}
	n.parent = parent
	w.limits(rule, single, several)
	if nested.value != nil {
		w.descriptors(nested, domain, n, depth+1)
	}
}

// descriptorKey reads the key of a descriptor. envoyproxy/ratelimit looks for
// `*` in "key_value" and so lets it into keys by accident; here a `*` in a key
// could only be a mistake.
func (w *walk) descriptorKey(f field) (string, bool) {
	key, ok := w.text(f)
	switch {
	case !ok:
		return "", false
	case key == "":
		w.problem(f.value, f.trail, "`key` is empty; a descriptor needs the key of a request entry")
		return "", false
	case strings.Contains(key, "*"):
		w.problem(f.value, f.trail, "`key` is %s, but patterns are for values only; name the key and put the `*` into `value`", quoted(key))
		return "", false
	}
	return key, true
}

// limits reads the limits of a descriptor and makes it a rule if it has any.
// The rule takes its place in document order before the rules nested in it.
func (w *walk) limits(rule *Rule, single, several field) {
	switch {
	case single.value != nil && several.value != nil:
		w.problem(several.key, several.trail, "`rate_limit` and `rate_limits` exclude each other; put all limits into `rate_limits`")
		return
	case single.value != nil:
		w.singleLimit(rule, single)
	case several.value != nil:
		w.listedLimits(rule, several)
	default:
		return
	}
	n := rule.node
	rule.ID = n.id(rule.Domain)
	for i, step := range n.path() {
		if step.share || step.hash {
			if rule.counting == nil {
				rule.counting = make([]counting, len(n.path()))
			}
			rule.counting[i] = step.counting()
		}
	}
	rule.metric = rule.metricLevels()
	n.rule = rule
	w.set.rules = append(w.set.rules, rule)
}

// counting is how the entries that the descriptor takes go into keys.
func (n *node) counting() counting {
	c := counting{hash: n.hash}
	if n.pieces != nil {
		c.pattern = n.value
	}
	return c
}
