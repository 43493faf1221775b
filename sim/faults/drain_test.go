package faults

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
	"github.com/quorate/quorate/sim/live"
	"github.com/quorate/quorate/sim/workload"
)

// sessions are the sessions of all regions, as the leader has them.
func (s *scene) sessions() map[string]uint64 {
	s.t.Helper()
	answer, err := s.leader().Admin().ListRegions(s.t.Context(), &quoratev1.ListRegionsRequest{})
	s.must("list regions", err)
	sessions := map[string]uint64{}
	for _, r := range answer.GetRegions() {
		sessions[r.GetName()] = r.GetSession()
	}
	return sessions
}

// The last agent of a region ends in order: whoever follows its readiness has no
// request lost, and the other regions have its leases at once.
func TestK93LastAgentEndsInOrder(t *testing.T) {
	t.Parallel()
	const share = perSecond / 10 / 3 // what each region owns for ever
	s := open(t, document(rule("api", perSecond)), live.Options{DrainDelay: 500 * time.Millisecond})
	tr := s.audited("api", perSecond)
	s.offer(tr, perSecond, "ap", "us")
	// The timeout is the machine's to miss, so it is a long one.
	leaving := s.load(live.LoadSpec{Region: "eu", Track: tr, Demand: workload.Steady(perSecond), Timeout: 5 * time.Second})
	s.recovers("start", tr, patience, all...)

	eu := s.Region("eu").Agent(0)
	ended := make(chan error, 1)
	began := time.Now()
	go func() { ended <- eu.Stop() }()
	s.until("readiness is off", 2*time.Second, func() error {
		if eu.Ready(t.Context()) == nil {
			return errors.New("it is ready")
		}
		return nil
	})
	if !eu.Running() {
		t.Error("the agent was gone before anybody could see that it is not ready")
	}
	leaving.Stop()
	if counts := tr.Tally().Regions["eu"]; counts.Failed+counts.Dropped != 0 {
		t.Errorf("%v requests failed, %v dropped", counts.Failed, counts.Dropped)
	}
	s.must("stop "+eu.Name, <-ended)
	t.Logf("ended after %v", time.Since(began).Round(time.Millisecond))
	took := s.until("the leases are back", 2*time.Second, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		answer, err := s.leader().Admin().ListLeases(ctx, &quoratev1.ListLeasesRequest{Region: "eu"})
		if err != nil {
			return err
		}
		for _, a := range answer.GetAccounts() {
			for _, h := range a.GetHolders() {
				if h.GetRegion() == "eu" && h.GetHoldsLease() {
					return fmt.Errorf("eu still holds %v of %s", h.GetLease(), a.GetKey())
				}
			}
		}
		return nil
	})
	t.Logf("leases back after %v", took.Round(time.Millisecond))
	least := 0.8 * (perSecond - share) / 2
	if !measured {
		least /= 2
	}
	took = s.settles("the others have them", tr, 3*time.Second, least, 2*perSecond, "ap", "us")
	t.Logf("the other regions serve them after %v, the measured second included", took.Round(10*time.Millisecond))
	s.must("restart "+eu.Name, eu.Restart())
	s.must("wait for "+eu.Name, s.AwaitReady(t.Context()))
	s.offer(tr, perSecond, "eu")
	s.recovers("agent is back", tr, 10*time.Second, all...)
	s.bound(tr)
}

// A leader that ends in order hands over: no follower has to notice by itself,
// and no session ends.
func TestLeaderEndsInOrder(t *testing.T) {
	t.Parallel()
	s := open(t, document(rule("api", perSecond)), live.Options{})
	tr := s.audited("api", perSecond)
	s.offer(tr, perSecond, all...)
	s.recovers("start", tr, patience, all...)

	before, leader, from := s.sessions(), s.leader(), tr.Tally()
	ended := make(chan error, 1)
	go func() { ended <- leader.Stop() }()
	var led time.Time // when the old leader was last seen to lead
	began := time.Now()
	took := s.until("another leader", 10*time.Second, func() error {
		now, err := s.Leader(t.Context())
		switch {
		case err != nil:
			return err
		case now == leader:
			led = time.Now()
			return errors.New("the old one leads")
		}
		return nil
	})
	if led.IsZero() {
		led = began
	}
	gap := time.Since(led)
	t.Logf("another leader %v after SIGTERM, without one for at most %v", took.Round(time.Millisecond), gap.Round(time.Millisecond))
	if measured && gap > election {
		t.Errorf("no leader for %v, want less than an election timeout of %v", gap, election)
	}
	s.must("stop "+leader.Name, <-ended)
	// Longer than a session that nobody renews would live.
	s.watch(timing().TTL+timing().Guard+time.Second, tr)
	s.serves("leader handed over", span{from, tr.Tally()}, 0.9)
	for region, session := range s.sessions() {
		if session != before[region] {
			t.Errorf("region %s: session %d became %d", region, before[region], session)
		}
	}
	s.must("restart "+leader.Name, leader.Restart())
	s.agree()
	s.bound(tr)
}
