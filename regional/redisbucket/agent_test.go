package redisbucket

import (
	"context"
	"strings"
	"testing"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/lease"
)

// The cases in arithmetic_test.go and algorithms_test.go are about what a limit means,
// whatever counts it: each is decided with all five algorithms, as an agent decides, by
// rules that it has adopted and on a real Redis. Where they differ, the differences are
// those that the README tells of. The rules refuse a fixed window of less than a minute and
// a log of more than 10,000: numbers that were reported of such are scaled, or left to the
// other algorithms. They refuse a burst without a rate, too, so that K09 is a day's only one.

const (
	tokens  = "token_bucket"
	leaky   = "leaky_bucket"
	fixed   = "fixed_window"
	log     = "sliding_window_log"
	counter = "sliding_window_counter"
)

var algorithms = []string{tokens, leaky, fixed, log, counter}

// midnight is when these cases begin: a day, and with it an hour, a minute and a second.
const midnight = 1_700_006_400 * quota.Second

const (
	ms     = 1000
	minute = 60 * quota.Second
	hour   = 60 * minute
)

// agent decides for a region that owns all of its limits.
type agent struct {
	t       *testing.T
	s       *Store
	e       *enforce.Enforcer
	set     func(quota.Micros) // of the clock of Redis
	now     quota.Micros       // since midnight
	version uint64
}

// inAll runs a case with each algorithm, by itself and with what an agent keeps in
// memory. In a document WITH stands for the algorithm.
func inAll(t *testing.T, doc string, run func(t *testing.T, algorithm string, a *agent)) {
	t.Helper()
	inEach(t, algorithms, doc, run)
}

func inEach(t *testing.T, algorithms []string, doc string, run func(t *testing.T, algorithm string, a *agent)) {
	t.Helper()
	for _, algorithm := range algorithms {
		for name, memory := range map[string]bool{algorithm: false, algorithm + " with memory": true} {
			t.Run(name, func(t *testing.T) {
				run(t, algorithm, newAgent(t, algorithm, doc, memory))
			})
		}
	}
}

func newAgent(t *testing.T, algorithm, doc string, memory bool) *agent {
	t.Helper()
	a := &agent{t: t}
	a.s, a.set = openWithClock(t)
	a.set(midnight)
	a.e = enforce.New(enforce.Config{
		Store: a.s, RememberDenials: memory, Allowances: memory,
		Wall: func() quota.Micros { return midnight + a.now },
	})
	if err := a.s.MarkFirst(t.Context(), state(t, a.s).Incarnation); err != nil {
		t.Fatal(err)
	}
	a.adopt(algorithm, doc)
	return a
}

// user is a document with one limit.
func user(limit string) string {
	return "- {key: user, rate_limit: {" + limit + ", quota: {WITH}}}"
}

// adopt puts the rules in force.
func (a *agent) adopt(algorithm, doc string) {
	a.t.Helper()
	a.version++
	doc = "domain: api\ndescriptors:\n" + strings.ReplaceAll(doc, "WITH", "algorithm: "+algorithm+", standing_share: 1")
	blob, err := lease.Encode(quota.Config{
		Version: a.version, Sources: []quota.Source{{Name: "rules.yaml", Text: doc}}, Shares: quota.Shares{{Region: "eu", Weight: 1}},
	}, "eu", a.e.Adoption())
	if err != nil {
		a.t.Fatal(err)
	}
	if err := a.s.Adopt(a.t.Context(), state(a.t, a.s).Incarnation, a.version, blob); err != nil {
		a.t.Fatal(err)
	}
	current, before, err := a.s.Config(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	adopted, err := lease.Adopt("eu", 0, state(a.t, a.s), current, before)
	if err != nil {
		a.t.Fatal(err)
	}
	a.e.Adopt(adopted)
}

// at moves the clocks.
func (a *agent) at(since quota.Micros) *agent {
	a.now = since
	a.set(midnight + since)
	return a
}

// hits makes a descriptor of key=value, with hits of its own: negative ones are given back.
func hits(name string, n int64) enforce.Descriptor {
	key, value, _ := strings.Cut(name, "=")
	h := uint64(max(n, -n))
	return enforce.Descriptor{Entries: []rules.Entry{{Key: key, Value: value}}, Hits: &h, Refund: n < 0}
}

func (a *agent) decide(req enforce.Request) enforce.Decision {
	a.t.Helper()
	req.Domain = "api"
	dec, err := a.e.Decide(context.Background(), a.now.Duration(), req)
	if err != nil {
		a.t.Fatal(err)
	}
	return dec
}

// ask asks for n hits of one user. K83 and K87: whatever it is answered, no number is
// negative, a wait is told with every denial, and a reset as soon as anything is used.
func (a *agent) ask(n int64) enforce.Status {
	a.t.Helper()
	return a.one(hits("user=a", n))
}

func (a *agent) one(d enforce.Descriptor) enforce.Status {
	a.t.Helper()
	s := a.decide(enforce.Request{Descriptors: []enforce.Descriptor{d}}).Statuses[0]
	if s.Reset < 0 || s.Retry < 0 || s.Over != (s.Retry > 0) || !d.Refund && *d.Hits > 0 && s.Reset == 0 {
		a.t.Errorf("at %v: have %+v", a.now.Duration(), s)
	}
	return s
}

// left is what one user has left.
func (a *agent) left() uint32 { a.t.Helper(); return a.ask(0).Remaining }

// want asks for n hits and says whether they are to be admitted.
func (a *agent) want(why string, n int64, admitted bool) enforce.Status {
	a.t.Helper()
	s := a.ask(n)
	if s.Over == admitted {
		a.t.Errorf("%s, at %v: %d hits admitted: have %v, want %v: %+v", why, a.now.Duration(), n, !s.Over, admitted, s)
	}
	return s
}

// stream asks for n hits at once in every interval of a time, and returns how many were
// admitted in it.
func (a *agent) stream(from, to, every quota.Micros, n int64) (admitted int64) {
	a.t.Helper()
	for at := from; at < to; at += every {
		if !a.at(at).ask(n).Over {
			admitted += n
		}
	}
	return admitted
}

// life is how long the record of what a descriptor names is kept, from its last write.
func (a *agent) life(name string) quota.Micros {
	a.t.Helper()
	keys, err := a.s.client.Load().Keys(a.t.Context(), a.s.bucketKey(quota.Key("api|"+name+"*"))).Result()
	if err != nil || len(keys) != 1 {
		a.t.Fatalf("have the records %q of %s, %v", keys, name, err)
	}
	ttl, err := a.s.client.Load().HGet(a.t.Context(), keys[0], "ttl").Int64()
	if err != nil {
		a.t.Fatal(err)
	}
	return quota.Micros(ttl) * ms
}

// within checks a number that depends on the algorithm.
func within(t *testing.T, what string, have int64, algorithm string, want map[string][2]int64) {
	t.Helper()
	if w := want[algorithm]; have < w[0] || have > w[1] {
		t.Errorf("%s: have %d, want %d to %d", what, have, w[0], w[1])
	}
}
