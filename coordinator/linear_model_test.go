package coordinator

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"
	"google.golang.org/grpc/codes"
)

// What one server without any failure would answer: a versioned register for the
// rules, with compare-and-set, and the table of regions. Every change of either
// makes a new configuration, whose version orders them among each other, so they
// are one model and not two.

// places are the regions that the clients come and go with.
var places = [...]string{"ap", "eu", "sa", "us"}

// absent is the weight of a region that is not registered.
const absent = -1

// registry is comparable: the checker remembers where it has been.
type registry struct {
	rules, config uint64
	document      string
	weights       [len(places)]int64
}

type operation int

const (
	applyRules operation = iota
	getRules
	addRegion
	drainRegion
	removeRegion
	listRegions
	operations
)

// call is an operation with its arguments.
type call struct {
	op       operation
	document string
	// conditional makes an edit depend on the version of the rules.
	conditional bool
	version     uint64
	place       int
	weight      int64
}

// answer is what came back. An unknown one may be anything, at any later time:
// the operation may or may not have been done, or yet be done.
type answer struct {
	unknown       bool
	code          codes.Code
	changed       bool
	rules, config uint64
	document      string
	weights       [len(places)]int64
}

// run returns the state after a call and its only right answer.
func (c call) run(s registry) (registry, answer) {
	weight := &s.weights[c.place]
	was := *weight
	switch c.op {
	case applyRules:
		if c.conditional && c.version != s.rules {
			return s, answer{code: codes.Aborted}
		}
		changed := c.document != s.document
		if changed {
			s.rules, s.config, s.document = s.rules+1, s.config+1, c.document
		}
		return s, answer{rules: s.rules, config: s.config, changed: changed}
	case getRules:
		return s, answer{rules: s.rules, config: s.config, document: s.document}
	case listRegions:
		return s, answer{config: s.config, weights: s.weights}
	case addRegion:
		*weight = c.weight
	case drainRegion:
		if was == absent {
			return s, answer{code: codes.NotFound}
		}
		*weight = 0
	case removeRegion:
		if was > 0 {
			return s, answer{code: codes.FailedPrecondition}
		}
		*weight = absent
	}
	if *weight != was {
		s.config++
	}
	return s, answer{config: s.config, changed: *weight != was}
}

// modelFrom is a server that begins with a state.
func modelFrom(first registry) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return first },
		Step: func(s, in, out any) (bool, any) {
			next, want := in.(call).run(s.(registry))
			have := out.(answer)
			return have.unknown || have == want, next
		},
		DescribeOperation: func(in, out any) string { return fmt.Sprintf("%v → %v", in, out) },
		DescribeState:     func(s any) string { return fmt.Sprintf("%+v", s) },
	}
}

func (c call) String() string {
	switch c.op {
	case applyRules:
		if c.conditional {
			return fmt.Sprintf("apply %q if %d", c.document, c.version)
		}
		return fmt.Sprintf("apply %q", c.document)
	case addRegion:
		return fmt.Sprintf("add %s=%d", places[c.place], c.weight)
	case drainRegion:
		return "drain " + places[c.place]
	case removeRegion:
		return "rm " + places[c.place]
	case listRegions:
		return "ls"
	}
	return "get"
}

func (a answer) String() string {
	switch {
	case a.unknown:
		return "unknown"
	case a.code != codes.OK:
		return a.code.String()
	}
	var parts []string
	for i, w := range a.weights {
		parts = append(parts, fmt.Sprintf("%s=%d", places[i], w))
	}
	return fmt.Sprintf("rules %d config %d changed %v %q %s", a.rules, a.config, a.changed, a.document, strings.Join(parts, " "))
}

// The test of the test: histories that no single server could have answered, and
// their neighbours that one could.
func TestModelFindsWhatIsNotLinearizable(t *testing.T) {
	first := registry{rules: 3, config: 7, document: "a", weights: [len(places)]int64{absent, 1, absent, 1}}
	begin := func(op call, from, to int64, a answer) porcupine.Operation {
		return porcupine.Operation{Input: op, Call: from, Output: a, Return: to}
	}
	const never = 1 << 60
	apply := func(document string) call { return call{op: applyRules, document: document} }
	only := func(document string, version uint64) call {
		return call{op: applyRules, document: document, conditional: true, version: version}
	}
	get, ls := call{op: getRules}, call{op: listRegions}
	add := call{op: addRegion, place: 0, weight: 5}
	drain := call{op: drainRegion, place: 1}
	remove := call{op: removeRegion, place: 1}
	read := func(rules, config uint64, document string) answer {
		return answer{rules: rules, config: config, document: document}
	}
	edited := func(rules, config uint64) answer { return answer{rules: rules, config: config, changed: true} }
	table := func(config uint64, weights ...int64) answer {
		return answer{config: config, weights: [len(places)]int64(weights)}
	}
	unknown := answer{unknown: true}
	for _, tt := range []struct {
		reason string
		list   []porcupine.Operation
		want   porcupine.CheckResult
	}{
		{"one after the other", []porcupine.Operation{
			begin(apply("b"), 0, 1, edited(4, 8)), begin(get, 2, 3, read(4, 8, "b")),
		}, porcupine.Ok},
		{"a read that is too old", []porcupine.Operation{
			begin(apply("b"), 0, 1, edited(4, 8)), begin(get, 2, 3, read(3, 7, "a")),
		}, porcupine.Illegal},
		{"the same read, begun before the edit had ended", []porcupine.Operation{
			begin(apply("b"), 0, 2, edited(4, 8)), begin(get, 1, 3, read(3, 7, "a")),
		}, porcupine.Ok},
		{"two reads that see an edit come and go", []porcupine.Operation{
			begin(apply("b"), 0, 9, edited(4, 8)), begin(get, 1, 2, read(4, 8, "b")), begin(get, 3, 4, read(3, 7, "a")),
		}, porcupine.Illegal},
		{"two edits from one version", []porcupine.Operation{
			begin(only("b", 3), 0, 9, edited(4, 8)), begin(only("c", 3), 0, 9, edited(5, 9)),
		}, porcupine.Illegal},
		{"one of them is told", []porcupine.Operation{
			begin(only("b", 3), 0, 9, edited(4, 8)), begin(only("c", 3), 0, 9, answer{code: codes.Aborted}),
		}, porcupine.Ok},
		{"a conflict with nobody", []porcupine.Operation{
			begin(only("b", 3), 0, 9, answer{code: codes.Aborted}),
		}, porcupine.Illegal},
		{"a change that is said to be none", []porcupine.Operation{
			begin(apply("b"), 0, 1, answer{rules: 4, config: 8}),
		}, porcupine.Illegal},
		{"an edit whose outcome is unknown and that is done much later", []porcupine.Operation{
			begin(apply("b"), 0, never, unknown), begin(get, 2, 3, read(3, 7, "a")), begin(get, 4, 5, read(4, 8, "b")),
		}, porcupine.Ok},
		{"and one that is never done", []porcupine.Operation{
			begin(apply("b"), 0, never, unknown), begin(get, 2, 3, read(3, 7, "a")),
		}, porcupine.Ok},
		{"but it is not done twice", []porcupine.Operation{
			begin(apply("b"), 0, never, unknown), begin(apply("c"), 2, 3, edited(5, 9)), begin(get, 4, 5, read(6, 10, "b")),
		}, porcupine.Illegal},
		{"an edit that was done though it is said to have failed", []porcupine.Operation{
			begin(get, 4, 5, read(4, 8, "b")),
		}, porcupine.Illegal},
		{"a region that comes", []porcupine.Operation{
			begin(add, 0, 1, edited(0, 8)), begin(add, 2, 3, answer{config: 8}), begin(ls, 4, 5, table(8, 5, 1, absent, 1)),
		}, porcupine.Ok},
		{"a table from before it came", []porcupine.Operation{
			begin(add, 0, 1, edited(0, 8)), begin(ls, 4, 5, table(7, absent, 1, absent, 1)),
		}, porcupine.Illegal},
		{"a region that goes", []porcupine.Operation{
			begin(remove, 0, 1, answer{code: codes.FailedPrecondition}), begin(drain, 2, 3, edited(0, 8)),
			begin(remove, 4, 5, edited(0, 9)), begin(drain, 6, 7, answer{code: codes.NotFound}),
		}, porcupine.Ok},
		{"a region that goes undrained", []porcupine.Operation{
			begin(remove, 0, 1, edited(0, 8)),
		}, porcupine.Illegal},
		{"rules and table in an order that neither has alone", []porcupine.Operation{
			begin(apply("b"), 0, 9, edited(4, 8)), begin(add, 0, 9, edited(0, 9)),
			begin(ls, 3, 4, table(8, 5, 1, absent, 1)),
		}, porcupine.Illegal},
	} {
		if have := porcupine.CheckOperationsTimeout(modelFrom(first), slices.Clone(tt.list), 0); have != tt.want {
			t.Errorf("%s: have %v, want %v", tt.reason, have, tt.want)
		}
	}
}
