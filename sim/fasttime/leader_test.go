package fasttime

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
)

// isolation is one way to part a node from other hosts.
type isolation struct {
	follower      bool // not the leader
	peers, agents bool // from whom
	out, in       bool // which direction is cut
	flaps         bool // cut and healed again and again
}

func (i isolation) String() string {
	who, from, how := "the leader", "everybody", ""
	switch {
	case !i.agents:
		from = "the nodes"
	case !i.peers:
		from = "the agents"
	}
	switch {
	case !i.in:
		how = ", but hears"
	case !i.out:
		how = ", but is heard"
	}
	if i.follower {
		who = "a follower"
	}
	if i.flaps {
		how += ", on and off"
	}
	return who + " from " + from + how
}

// isolations are all the ways. To part a follower from agents alone changes
// nothing, so it is not among them.
func isolations() (all []isolation) {
	for _, flaps := range []bool{false, true} {
		for _, ways := range [][2]bool{{true, true}, {true, false}, {false, true}} {
			for _, i := range []isolation{
				{peers: true}, {agents: true}, {peers: true, agents: true},
				{follower: true, peers: true}, {follower: true, peers: true, agents: true},
			} {
				i.out, i.in, i.flaps = ways[0], ways[1], flaps
				all = append(all, i)
			}
		}
	}
	return all
}

// ways returns what an isolation of a node cuts.
func (w *world) ways(node *node, how isolation) (all []way) {
	var hosts []string
	if how.peers {
		for _, n := range w.nodes {
			if n != node {
				hosts = append(hosts, n.name)
			}
		}
	}
	if how.agents {
		for _, r := range w.regions {
			for _, a := range r.agents {
				hosts = append(hosts, a.name)
			}
		}
	}
	for _, h := range hosts {
		if how.out {
			all = append(all, way{node.name, h})
		}
		if how.in {
			all = append(all, way{h, node.name})
		}
	}
	return all
}

// sessions returns the session of each region by its agents, 0 where it does not
// count any more.
func (w *world) sessions() map[string]quota.SessionID {
	out := map[string]quota.SessionID{}
	for _, r := range w.regions {
		if s := r.agents[0].Status(); s.Phase == "connected" {
			out[r.name] = s.Session
		}
	}
	return out
}

// serves reports whether a node leads and serves, by its own account.
func (n *node) serves() bool {
	s := n.node.Status()
	return s.Role == "leader" && s.Ready
}

// find is how long an agent may take from when there is a leader again until that
// one has renewed its session: to give up on the old one, the longest backoff, and
// a few round trips.
const find = 2*time.Second + 1250*time.Millisecond + 250*time.Millisecond

// plan is the random choices of a run.
type plan struct {
	*rand.Rand
	seed uint64
	ways []isolation // that are left of this turn
}

// newPlan returns the plan that FASTTIME_SEED chooses, default 1.
func newPlan(t *testing.T) *plan {
	seed := uint64(1)
	if text := os.Getenv("FASTTIME_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("FASTTIME_SEED: %v", err)
		}
	}
	return &plan{Rand: rand.New(rand.NewPCG(seed, 0)), seed: seed}
}

// length returns the duration in an environment variable, or the default.
func length(t *testing.T, variable string, d time.Duration) time.Duration {
	if text := os.Getenv(variable); text != "" {
		var err error
		if d, err = time.ParseDuration(text); err != nil || d <= 0 {
			t.Fatalf("%s: %q is no duration above 0", variable, text)
		}
	}
	return d
}

func (p *plan) between(least, most time.Duration) time.Duration {
	return least + time.Duration(p.Int64N(int64(most-least)))
}

// way returns the next isolation: each of them in a random order, then all over.
func (p *plan) way() isolation {
	if len(p.ways) == 0 {
		p.ways = isolations()
		p.Shuffle(len(p.ways), func(i, j int) { p.ways[i], p.ways[j] = p.ways[j], p.ways[i] })
	}
	next := p.ways[0]
	p.ways = p.ways[1:]
	return next
}

// An hour in which whoever leads, and now and then a follower, is parted from the
// other nodes, from the agents or from both, in one direction or in both, for a
// moment or for a minute, steadily or on and off, and then healed, again and
// again. All the time the Bound is kept, no term has two leaders, and nodes that
// have applied the same entries are in the same state. No region loses its session
// when there is a leader again soon, a follower costs nobody the leadership, and
// all are connected soon after each healing.
//
// FASTTIME_SEED chooses another plan and FASTTIME_FOR=10h another length.
func TestHoursOfRandomLeaderIsolation(t *testing.T) {
	lasts := time.Hour
	if testing.Short() || raceEnabled {
		lasts = 10 * time.Minute
	}
	lasts, p, limit := length(t, "FASTTIME_FOR", lasts), newPlan(t), capacity(10, 10)
	started := time.Now() // outside of the bubble, where time is real
	run(t, document(10, "standing"), func(w *world) {
		for _, name := range all {
			w.load(name, 6)
		}
		began, rounds, seen := time.Now(), 0, map[isolation]bool{}
		var kept, long, undisturbed int
		var slowest time.Duration
		for ; time.Since(began) < lasts; rounds++ {
			time.Sleep(p.between(time.Second, 20*time.Second))
			how, cut := p.way(), p.between(time.Second, 5*time.Second)
			if p.IntN(2) == 0 {
				cut = p.between(5*time.Second, time.Minute)
			}
			seen[how] = true
			e := w.episode(p, how, cut, 2*time.Second)
			switch same := fmt.Sprint(e.before) == fmt.Sprint(e.after); {
			case how.follower:
				if undisturbed++; !same || e.led != w.leader().node.Status().Term {
					t.Errorf("round %d: %s for %v: sessions were %v and are %v, the term was %d and is %d",
						rounds, how, cut, e.before, e.after, e.led, w.leader().node.Status().Term)
				}
			case how.flaps || e.without+find > e.left:
				long++
			default:
				if kept++; !same {
					t.Errorf("round %d: %s for %v, no leader for %v of the %v that the leases had left: sessions were %v and are %v",
						rounds, how, cut, e.without, e.left, e.before, e.after)
				}
			}
			slowest = max(slowest, w.within(20*time.Second, fmt.Sprintf("round %d: all agents are connected after %s", rounds, how), w.connected))
		}
		if kept == 0 || rounds >= len(isolations()) && len(seen) < len(isolations()) {
			t.Error("too little has happened to show anything")
		}
		time.Sleep(10 * time.Second)
		from := now()
		time.Sleep(time.Minute)
		if have := w.share(limit, from, now()); have < 0.9 {
			t.Errorf("after everything is healed: admitted %.3f of the ideal, want 0.9", have)
		}
		w.bound(limit, 0)
		w.agree()
		t.Logf("seed %d: %d isolations in %d ways over %v; %d elections won, %d terms served, %d states compared",
			p.seed, rounds, len(seen), time.Since(began), w.witness.elections(), w.witness.terms(), w.witness.compared)
		t.Logf("a leader again soon %d times, not %d times, none needed %d times; all connected after %v at the latest; admitted %.3f of the ideal in all",
			kept, long, undisturbed, slowest, w.share(limit, 0, now()))
	})
	t.Logf("took %v", time.Since(started).Round(time.Millisecond))
}

// episode is what became of a node that was cut off.
type episode struct {
	// left is for how long all leases could be used when it was cut off, and
	// without how long it took until the regions had a leader that they reach.
	left, without time.Duration
	// before and after are the sessions when it began and when it ended.
	before, after map[string]quota.SessionID
	led           uint64 // the term when it began
}

// episode cuts a node off for a time, or, when it flaps, again and again for at
// most flap each.
func (w *world) episode(p *plan, how isolation, lasts, flap time.Duration) episode {
	victim := w.leader()
	w.within(20*time.Second, "all agents are connected", w.connected)
	e := episode{left: time.Hour, before: w.sessions(), led: victim.node.Status().Term}
	for _, r := range w.regions {
		e.left = min(e.left, r.redis.left())
	}
	leader := victim
	for how.follower && victim == leader {
		victim = w.nodes[p.IntN(len(w.nodes))]
	}
	began, ways, cut := time.Now(), w.ways(victim, how), true
	turn := began
	w.network.setWays(true, ways...)
	for led := false; time.Since(began) < lasts; {
		time.Sleep(min(100*time.Millisecond, flap/10))
		if how.flaps && time.Since(turn) > 0 {
			cut, turn = !cut, time.Now().Add(p.between(flap/20, flap))
			w.network.setWays(cut, ways...)
		}
		for _, n := range w.nodes {
			led = led || n != leader && n.serves()
		}
		if !led {
			e.without = time.Since(began)
		}
		w.witness.compare(w.nodes)
	}
	e.after = w.sessions()
	w.network.setWays(false, ways...)
	return e
}
