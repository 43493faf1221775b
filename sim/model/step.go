package model

import "fmt"

// kind is what happens in a step.
type kind uint8

const (
	admits kind = iota
	applies
	appliesOld
	confirms
	renews
	renewsOld
	assigns
	opens
	opensGone
	replaces
	ends
	marks
	clears
	answers
	answersDeposed
	resets
	ticks
	elects
	kinds
)

// step is one thing that happens. All steps are atomic, and every order of them
// is tried.
type step struct {
	kind  kind
	side  int
	age   int    // of the sync that is answered, or whose answer arrives
	offer parcel // of an assignment
}

// do takes a step, or returns false where a rule refuses it; a refusal changes
// nothing.
func (c *Config) do(s *state, st step) bool {
	switch i := st.side; st.kind {
	case admits:
		return c.admit(s, i)
	case applies:
		return c.apply(s, i)
	case appliesOld:
		return c.applyOld(s, i)
	case confirms:
		return c.confirm(s, i)
	case renews:
		return c.renew(s, i, current, st.age)
	case renewsOld:
		return c.renew(s, i, before, st.age)
	case assigns:
		return c.assign(s, i, st.offer)
	case opens, opensGone:
		return c.openSession(s, i, st.kind == opensGone)
	case replaces:
		return c.replace(s, i)
	case ends:
		return c.endSession(s, i)
	case marks, clears:
		return c.mark(s, i, st.kind == marks)
	case answers:
		return c.answer(s, i, st.age)
	case answersDeposed:
		return c.answerDeposed(s, i, st.age)
	case resets:
		return c.reset(s, i)
	case ticks:
		c.tick(s)
	case elects:
		c.elect(s)
	}
	return true
}

// simple are the steps of one region that need no number.
var simple = [...]kind{admits, applies, appliesOld, confirms, opens, opensGone, replaces, ends, marks, clears, resets}

// aged are the steps of one region that differ by the age of a sync.
var aged = [...]kind{answers, renews, answersDeposed, renewsOld}

// successors calls visit with every step that can be taken in s and the state it
// leads to, until visit returns false.
func (c *Config) successors(s *state, visit func(st step, next *state) bool) {
	next, more := *s, true
	try := func(st step) {
		if more && c.do(&next, st) {
			c.forget(&next)
			more = visit(st, &next)
			next = *s
		}
	}
	try(step{kind: ticks})
	try(step{kind: elects})
	for i := range s.side {
		for _, k := range simple {
			try(step{kind: k, side: i})
		}
		for age := range c.TTL {
			for _, k := range aged {
				try(step{kind: k, side: i, age: age})
			}
		}
		c.proposals(s, i, try)
	}
}

// proposals are all assignments up to one beyond the limit in every dimension:
// the ledger must refuse what is nonsense. Where it looks at no proposal at all,
// one is as good as every other.
func (c *Config) proposals(s *state, i int, try func(step)) {
	if r := &s.side[i]; !r.open || r.flying {
		try(step{kind: assigns, side: i, offer: parcel{lease: c.Shares[i]}})
		return
	}
	for rate := range c.Limit.Rate + 2 {
		for burst := range c.Limit.Burst + 2 {
			for credit := range c.Limit.Burst + 2 {
				try(step{kind: assigns, side: i, offer: parcel{Capacity{rate, burst}, credit}})
			}
		}
	}
}

// describe says in words what a step does in s.
func (c *Config) describe(s *state, st step) string {
	r, who := &s.side[st.side], name(st.side)
	switch st.kind {
	case admits:
		return who + " admits a token"
	case applies:
		return fmt.Sprintf("%s receives and applies its assignment: %v", who, r.flight)
	case appliesOld:
		return fmt.Sprintf("%s receives and applies an assignment of the session that has ended: %v", who, r.parcel)
	case confirms:
		return fmt.Sprintf("commit: %s has applied its assignment and surrendered %d", who, r.returned)
	case renews:
		return fmt.Sprintf("%s receives the answer to a sync of age %d", who, st.age)
	case renewsOld:
		return fmt.Sprintf("%s receives the answer to a sync of age %d, for the session that has ended", who, st.age)
	case assigns:
		return fmt.Sprintf("commit: assign %s %v", who, st.offer)
	case opens:
		return "commit: open a session for " + who
	case opensGone:
		return "commit: open a session for an incarnation of " + who + " that is gone"
	case replaces:
		return "commit: replace the session of " + who
	case ends:
		return "commit: end the session of " + who
	case marks:
		return "commit: the session of " + who + " is silent"
	case clears:
		return "commit: the session of " + who + " is heard again"
	case answers:
		return fmt.Sprintf("the leader answers a sync of %s of age %d", who, st.age)
	case answersDeposed:
		return fmt.Sprintf("a deposed leader answers a sync of %s of age %d", who, st.age)
	case resets:
		return "the store of " + who + " loses its data"
	case ticks:
		return "a tick passes"
	case elects:
		return "a new leader begins its term"
	}
	return "unknown step"
}

// String writes the lease an assignment leads to, and what travels with it.
func (p parcel) String() string { return fmt.Sprintf("%v with credit %d", p.lease, p.credit) }
