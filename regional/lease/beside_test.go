package lease

import (
	"testing"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
)

// What is said beside a sync renews nothing and names the session that the sync
// named; nothing is said before there is one, nor in a session that is not trusted.
func TestBesideASync(t *testing.T) {
	at := func(t quota.Micros) Clock { return Clock{Mono: t, Boot: t, Real: t} }
	state := func(now quota.Micros, session quota.SessionID) bucket.State {
		return bucket.State{Now: now, Region: bucket.Region{Incarnation: "i", Session: session}}
	}
	answer := func(k *Keeper, now quota.Micros, seq uint64) {
		t.Helper()
		if _, err := k.Response(at(now), quota.SyncResponse{Seq: seq, Cluster: "c", Session: 5, TTL: quota.DefaultTiming().TTL}); err != nil {
			t.Fatal(err)
		}
	}
	k := New(Config{Region: "eu", Agent: "eu-1", Timing: quota.DefaultTiming(), Rand: func() float64 { return 0 }})
	silent := func(reason string, now quota.Micros) {
		t.Helper()
		if _, ok := k.Beside(at(now), Report{}); ok {
			t.Errorf("%s: something may be said", reason)
		}
		if _, ok := k.NextBeside(at(now), Pending{Urgent: true}); ok {
			t.Errorf("%s: something is due", reason)
		}
	}
	silent("no sync is open", 0)
	req := k.Request(at(1000), state(1000, 0), Report{})
	silent("no session yet", 1000)
	answer(k, 2000, req.Seq)

	const sent = 500_000
	k.Request(at(sent), state(sent, 5), Report{})
	for _, tt := range []struct {
		reason  string
		pending Pending
		wait    quota.Micros
		ok      bool
	}{
		{"nothing to say", Pending{}, 0, false},
		{"urgent keys share a message", Pending{Urgent: true}, urgentGap, true},
		{"so do confirmations", Pending{Applied: true}, urgentGap, true},
		{"usage waits longer", Pending{Usage: true}, reportGap, true},
	} {
		if wait, ok := k.NextBeside(at(sent), tt.pending); wait != tt.wait || ok != tt.ok {
			t.Errorf("%s: have %v %v, want %v %v", tt.reason, wait, ok, tt.wait, tt.ok)
		}
	}
	now := quota.Micros(sent) + urgentGap
	have, ok := k.Beside(at(now), Report{Usage: []quota.Usage{{Key: "k"}}, Replaces: "old"})
	if !ok || have.Seq != 0 || have.Session != 5 || have.Incarnation != (quota.Incarnation{ID: "i"}) || len(have.Usage) != 1 || have.Drop {
		t.Errorf("have %+v", have)
	}
	if wait, ok := k.NextBeside(at(now), Pending{Urgent: true}); wait != urgentGap || !ok {
		t.Errorf("after a message: have %v %v, want %v", wait, ok, urgentGap)
	}
	if k.Waiting() == 0 {
		t.Error("the sync does not wait for its answer any more")
	}
	k.Leave(at(now), false)
	silent("the agent leaves", now)
}
