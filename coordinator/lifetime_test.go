package coordinator

import (
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/planner"
	"github.com/quorate/quorate/coordinator/quota"
)

// silence returns a region's session, 0 without one, and for how long it has been
// marked silent, on the ledger clock.
func silence(m *member, region string) (id quota.SessionID, clock, silent quota.Micros) {
	m.node.fsm.View(func(l *ledger.Ledger) {
		clock = l.Clock()
		if s := l.Region(region).Session; s != nil {
			id = s.ID
			if s.Silent {
				silent = clock - s.SilentSince
			}
		}
	})
	return id, clock, silent
}

// left returns what the leader gives a region's session if it stays silent.
func left(m *member, region string) (d quota.Micros) {
	term := m.node.serving.Load()
	if term == nil {
		return 0
	}
	term.with(func(now quota.Micros, _ *ledger.Ledger) {
		for _, one := range term.memory.Contacts(now) {
			if one.Region == region {
				d = one.Left
			}
		}
	})
	return d
}

// replace makes another node lead, or the same one again in a new term, and
// returns it.
func (c *cluster) replace(old *member) *member {
	c.t.Helper()
	if err := c.stop(old); err != nil {
		c.t.Fatalf("stop %s: %v", old.cfg.Node, err)
	}
	c.start(old)
	return c.leader()
}

// K71: what a silent session has left is remembered across every leader change,
// not only across the first two.
func TestK71EveryLeaderRemembersTheSilence(t *testing.T) {
	const ttl = 6 * time.Second // three elections fit in
	c := newCluster(t, 3, func(cfg *Config) { cfg.Timing.TTL = ttl })
	c.rules(document)
	eu := newAgent(t, c, "eu", "eu-1")
	eu.feed(ada)
	session := eu.session
	eu.close() // and is never heard again
	full := quota.MicrosOf(ttl + c.timing.Guard)
	// What a leader's clock and the ledger's may differ by: it begins to count
	// when its first entry is committed.
	slack := quota.Second / 2

	l := c.leader()
	for change, last := 0, quota.Micros(0); change <= 3; change++ {
		if change > 0 {
			l = c.replace(l)
		}
		var silent quota.Micros
		eventually(t, "the silence goes on", func() bool {
			var id quota.SessionID
			if id, _, silent = silence(l, "eu"); id != session {
				t.Fatalf("after %d changes: have session %d, want %d to last", change, id, session)
			}
			return silent >= last+quota.Second/2
		})
		last = silent
		if have, want := left(l, "eu"), full-silent+slack; have > want {
			t.Errorf("leader %d gives a session that was silent for %v another %v, want at most %v",
				change, silent.Duration(), have.Duration(), want.Duration())
		}
	}
	var silent quota.Micros
	eventually(t, "the session ends", func() bool {
		id, _, s := silence(l, "eu")
		silent = max(silent, s)
		return id == 0
	})
	if want := full + slack; silent > want {
		t.Errorf("the session ended after a silence of %v, want at most %v", silent.Duration(), want.Duration())
	}
}

// K74: a leader that comes back counts its own time from zero. The ledger clock
// goes on from where it was, and sessions go on ending.
func TestK74SessionsEndAfterRestarts(t *testing.T) {
	for _, tt := range []struct {
		reason string
		size   int
		stops  func(*cluster) []*member
	}{
		{"the only node", 1, func(c *cluster) []*member { return c.members }},
		{"the leader of three", 3, func(c *cluster) []*member { return []*member{c.leader()} }},
		{"all three, from what is on disk", 3, func(c *cluster) []*member { return c.members }},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			c := newCluster(t, tt.size)
			c.rules(document)
			eu := newAgent(t, c, "eu", "eu-1")
			eu.feed(ada)
			session, before := eu.session, quota.Micros(0)
			eventually(t, "the first leader's time is far from zero", func() bool {
				eu.must()
				_, before, _ = silence(c.leader(), "eu")
				return before >= quota.MicrosOf(c.timing.TTL)
			})
			stopped := tt.stops(c)
			for _, m := range stopped {
				if err := c.stop(m); err != nil {
					t.Fatalf("stop %s: %v", m.cfg.Node, err)
				}
			}
			c.start(stopped...)
			l := c.leader()
			eu.must() // the session lives on under the new leader …
			if eu.session != session {
				t.Errorf("session %d became %d by the restart", session, eu.session)
			}
			eu.close() // … and then it has to end
			_, from, _ := silence(l, "eu")
			if from < before {
				t.Errorf("the ledger clock went back from %v to %v", before.Duration(), from.Duration())
			}
			var passed quota.Micros
			eventually(t, "the session ends", func() bool {
				id, clock, _ := silence(l, "eu")
				if passed = clock - from; id != 0 && passed > 2*quota.MicrosOf(c.timing.TTL) {
					t.Fatalf("the session is alive after %v", passed.Duration())
				}
				return id == 0
			})
			if want := quota.MicrosOf(c.timing.TTL - 2*c.timing.Tick); passed < want {
				t.Errorf("the ledger clock went on by %v until the session ended, want at least %v", passed.Duration(), want.Duration())
			}
			c.agree()
		})
	}
}

// K81: a region whose clock stepped gives its session up at once. It alone loses
// its leases, nobody spends what it had before, and it gets leases again. What a
// step on the leader does is in cmd/internal/arch: no line of the coordinator
// reads a wall clock.
func TestK81ClockStepCostsOneRegionItsSession(t *testing.T) {
	c := newCluster(t, 3, func(cfg *Config) { cfg.Timing.TTL = time.Minute })
	c.rules(document)
	eu, us := newAgent(t, c, "eu", "eu-1"), newAgent(t, c, "us", "us-1")
	eu.feed(ada)
	us.feed(ada)
	inside := func() {
		t.Helper()
		if sum := eu.usable(ada) + us.usable(ada); sum > 100*quota.Token {
			t.Fatalf("the regions may spend %v of 100", sum)
		}
	}
	for _, reason := range []string{"an hour forward", "an hour back"} {
		inside()
		was, other, had := eu.session, us.session, us.usable(ada)
		eu.drop()
		eu.must(hungry(ada, eu))
		us.must(hungry(ada, us))
		inside()
		if eu.session == was {
			t.Errorf("%s: session %d goes on though the region gave it up", reason, was)
		}
		if us.session != other || us.usable(ada) < had {
			t.Errorf("%s: the other region has session %d with %v, want session %d with at least %v", reason, us.session, us.usable(ada), other, had)
		}
		eventually(t, "the region holds a lease again", func() bool {
			eu.must(hungry(ada, eu))
			us.must(hungry(ada, us))
			inside()
			return eu.usable(ada) >= 30*quota.Token
		})
	}
	var contacts []planner.Contact
	term := c.leader().node.serving.Load()
	term.with(func(now quota.Micros, _ *ledger.Ledger) { contacts = term.memory.Contacts(now) })
	for _, one := range contacts {
		if one.Session == 0 {
			t.Errorf("region %s has no session", one.Region)
		}
	}
	c.agree()
}
