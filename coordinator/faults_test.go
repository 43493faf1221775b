package coordinator

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
)

// K72: a lease outlives its leader.
func TestK72LeasesSurviveTheLeader(t *testing.T) {
	c := newCluster(t, 3)
	c.rules(document)
	eu := newAgent(t, c, "eu", "eu-1")
	eu.feed(ada)
	session, had := eu.session, eu.usable(ada)
	old := c.leader()
	c.kill(old)
	eu.must()
	if eu.session != session || eu.usable(ada) < had {
		t.Errorf("have session %d with %v, want session %d with %v", eu.session, eu.usable(ada), session, had)
	}
	c.start(old)
	c.agree()
}

func TestFollowerKillIsNotNoticed(t *testing.T) {
	c := newCluster(t, 3)
	c.rules(document)
	eu := newAgent(t, c, "eu", "eu-1")
	eu.must()
	f := c.followers(c.leader())[0]
	c.kill(f)
	session := eu.session
	eu.feed(ada)
	if eu.session != session {
		t.Errorf("session %d became %d", session, eu.session)
	}
	c.start(f)
	c.agree()
}

func TestMajorityLossEndsServiceAndReturnResumes(t *testing.T) {
	c := newCluster(t, 3)
	c.rules(document)
	eu := newAgent(t, c, "eu", "eu-1")
	eu.feed(ada)
	l := c.leader()
	for _, f := range c.followers(l) {
		c.kill(f)
	}
	eventually(t, "nobody answers", func() bool { return eu.sync() != nil })
	for range 3 {
		if err := eu.sync(); err == nil && eu.refused == nil {
			t.Fatal("a renewal was answered without a majority")
		}
	}
	eventually(t, "the node is not ready", func() bool { return l.node.ready() != nil })
	c.start(c.followers(l)...)
	eu.feed(ada)
	c.agree()
}

// K80: after restarts the state is what it was.
func TestK80RestartsLeadToTheSameHash(t *testing.T) {
	c := newCluster(t, 3)
	c.rules(document)
	eu := newAgent(t, c, "eu", "eu-1")
	eu.feed(ada)
	eu.close()
	for range 3 {
		c.agree()
		for _, m := range c.members {
			if err := c.stop(m); err != nil {
				t.Fatalf("stop %s: %v", m.cfg.Node, err)
			}
		}
		c.start(c.members...)
		c.leader()
	}
	c.agree()
	resp, err := admin(t, c.leader()).GetRules(context.Background(), &quoratev1.GetRulesRequest{})
	if err != nil || resp.GetRulesVersion() != 1 {
		t.Errorf("have rules %v, %v, want version 1", resp.GetRulesVersion(), err)
	}
}

// K77: a rolling restart costs no agent its session.
func TestK77RollingRestartIsNotNoticed(t *testing.T) {
	c := newCluster(t, 3)
	c.rules(document)
	eu := newAgent(t, c, "eu", "eu-1")
	eu.feed(ada)
	session := eu.session
	stop, stopped := make(chan struct{}), make(chan struct{})
	expired := false
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
			}
			eu.sync(hungry(ada, eu))
			expired = expired || time.Now().After(eu.deadline)
		}
	}()
	for _, m := range c.members {
		if err := c.stop(m); err != nil {
			t.Errorf("stop %s: %v", m.cfg.Node, err)
		}
		c.start(m)
		c.leader()
	}
	close(stop)
	<-stopped
	if eu.session != session || expired {
		t.Errorf("have session %d, expired %v, want session %d all the time", eu.session, expired, session)
	}
}

// K76: a proposal whose outcome is unknown is made again; it is applied once.
func TestK76UnknownOutcomeRetriedIsOneGrant(t *testing.T) {
	// The session outlives slow elections.
	c := newCluster(t, 3, func(cfg *Config) { cfg.Timing.TTL = time.Minute })
	c.rules(document)
	eu := newAgent(t, c, "eu", "eu-1")
	eu.must()
	for i := range 5 {
		eu.must()
		key := quota.Key("api|user=k76-" + string(rune('a'+i)))
		grant := ledger.Assign{
			Region: "eu", Session: eu.session, Key: key,
			Lease: quota.Capacity{Rate: quota.Rate{Tokens: 50 * quota.Token, Per: quota.Second}, Burst: 50 * quota.Token}, Credit: 10 * quota.Token,
		}
		old := c.leader()
		answered := make(chan error, 1)
		go func() {
			errs, err := old.node.Propose(context.Background(), grant)
			if err == nil {
				err = errs[0]
			}
			answered <- err
		}()
		time.Sleep(time.Duration(i) * 500 * time.Microsecond) // before, while and after it is replicated
		c.network.set(old.cfg.RaftAddr, true)
		<-answered
		var l *member
		var errs []error
		eventually(t, "the retry has an outcome", func() (ok bool) { // or is made once more
			l = c.leader(old)
			var err error
			errs, err = l.node.Propose(context.Background(), grant)
			return err == nil
		})
		if errs[0] != nil && !errors.Is(errs[0], ledger.ErrInFlight) && !errors.Is(errs[0], ledger.ErrEpoch) {
			t.Fatalf("the retry: have %v", errs[0])
		}
		c.network.set(old.cfg.RaftAddr, false)
		eventually(t, "the old leader follows", func() bool { return old.node.serving.Load() == nil })
		l.node.fsm.View(func(s *ledger.Ledger) {
			a := s.Account(key)
			if reserved := a.Reserved("eu"); reserved.Burst != 50*quota.Token || a.Pool().Burst > 50*quota.Token {
				t.Errorf("have %v reserved and %v in the pool, want one grant of 50", reserved, a.Pool())
			}
		})
		c.agree()
	}
}

// K79: a leader that is cut off from the others renews nothing, from the first
// request on; what its region held comes back and is given away only after the
// region has stopped using it.
func TestK79IsolatedLeaderRenewsNothing(t *testing.T) {
	c := newCluster(t, 3, func(cfg *Config) {
		// Raft itself goes on believing for a second.
		cfg.RaftTimeouts.Heartbeat, cfg.RaftTimeouts.LeaderLease = time.Second, time.Second
	})
	c.rules(document)
	old := c.leader()
	eu, us := newAgent(t, c, "eu", "eu-1"), newAgent(t, c, "us", "us-1")
	eu.feed(ada)
	eventually(t, "eu has most of the limit", func() bool {
		eu.must(hungry(ada, eu))
		us.must()
		return eu.usable(ada) >= 70*quota.Token
	})
	eu.endpoints = []string{old.cfg.GRPCAddr} // eu knows nobody else
	c.network.set(old.cfg.RaftAddr, true)
	renewed, deadline := 0, eu.deadline
	us.endpoints = nil
	for _, m := range c.followers(old) {
		us.endpoints = append(us.endpoints, m.cfg.GRPCAddr)
	}
	us.close()
	eventually(t, "us has most of the limit", func() bool {
		if err := eu.attempt(nil); err == nil && eu.refused == nil {
			renewed++
		} else if eu.stream == nil || err != nil {
			eu.connect(old.cfg.GRPCAddr)
		}
		us.sync(hungry(ada, us))
		if sum := eu.usable(ada) + us.usable(ada); sum > 100*quota.Token {
			t.Fatalf("the regions may spend %v of 100", sum)
		}
		return us.usable(ada) >= 70*quota.Token
	})
	if renewed > 0 || eu.deadline != deadline {
		t.Errorf("the isolated leader renewed %d times", renewed)
	}
	c.network.set(old.cfg.RaftAddr, false)
	c.agree()
}

// K70, K71: elections do not keep a dead region's quota for ever.
func TestK70ElectionsDoNotKeepADeadSession(t *testing.T) {
	c := newCluster(t, 3)
	c.rules(document)
	eu := newAgent(t, c, "eu", "eu-1")
	eu.feed(ada)
	eu.close() // and is never heard again
	ended := func() (is bool) {
		c.leader().node.fsm.View(func(l *ledger.Ledger) { is = l.Region("eu").Session == nil })
		return is
	}
	elections := 0
	for started := time.Now(); !ended(); elections++ {
		if time.Since(started) > 20*time.Second {
			t.Fatal("the session outlived twenty elections")
		}
		// A new leader well before the session could end.
		next := time.Now().Add(1200 * time.Millisecond)
		for time.Now().Before(next) && !ended() {
			time.Sleep(20 * time.Millisecond)
		}
		if !ended() {
			old := c.leader()
			c.stop(old)
			c.start(old)
		}
	}
	if elections < 2 {
		t.Errorf("the session ended after %d elections, so the test showed nothing", elections)
	}
}
