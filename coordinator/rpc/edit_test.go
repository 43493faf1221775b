package rpc

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
)

func rulesOf(name string) string {
	return "domain: " + name + "\ndescriptors:\n  - key: user\n    rate_limit: {unit: second, requests_per_unit: 100}\n"
}

func setRules(name string) ledger.SetRules {
	return ledger.SetRules{Sources: []quota.Source{{Name: "api.yaml", Text: rulesOf(name)}}}
}

func applyRules(t *testing.T, c quoratev1.AdminClient, name string, ifVersion *uint64) (*quoratev1.ApplyRulesResponse, error) {
	t.Helper()
	return c.ApplyRules(t.Context(), &quoratev1.ApplyRulesRequest{
		Sources: []*quoratev1.Source{{Name: "api.yaml", Text: rulesOf(name)}}, IfVersion: ifVersion,
	})
}

// An edit that was given up by whoever asked for it is still on its way through the
// log when the next one is taken up. The condition of that one is about the rules
// it finds when it is applied, from the very first version on.
func TestConditionHoldsWhenTheEditIsApplied(t *testing.T) {
	for version := range uint64(3) {
		n, _, conn := serve(t)
		for v := range version {
			n.apply(setRules(string(rune('a' + v))))
		}
		n.before = func() { n.apply(setRules("mine")) }
		_, err := applyRules(t, quoratev1.NewAdminClient(conn), "yours", &version)
		if status.Code(err) != codes.Aborted {
			t.Errorf("an edit from version %d while another is committed: have %v, want %v", version, err, codes.Aborted)
		}
		if have := n.ledger.Current().Sources[0].Text; have != rulesOf("mine") {
			t.Errorf("the rules of version %d were replaced by an edit from version %d:\n%s", version+1, version, have)
		}
	}
}

// The answer to an edit is about this edit, whatever follows at once and whoever
// leads by then: it was made, and saying anything else would make its author
// repeat it or take back what others have built on.
func TestAnswerIsOfThisEdit(t *testing.T) {
	n, _, conn := serve(t)
	c := quoratev1.NewAdminClient(conn)
	follow := func() {
		n.apply(setRules("next"))
		n.apply(ledger.AddRegion{Region: "sa", Weight: 4})
		n.err = ErrNotLeader
	}
	n.after = follow
	rules, err := applyRules(t, c, "mine", nil)
	if err != nil || !rules.GetChanged() || rules.GetRulesVersion() != 1 || rules.GetConfigVersion() != 1 {
		t.Errorf("apply: have %v, %v, want a change to rules 1 and configuration 1", rules, err)
	}
	n.err, n.after = nil, func() {
		n.apply(ledger.DrainRegion{Region: "sa"})
		n.err = ErrNotLeader
	}
	region, err := c.AddRegion(t.Context(), &quoratev1.AddRegionRequest{Name: "eu", Weight: 1})
	if err != nil || !region.GetChanged() || region.GetConfigVersion() != 4 {
		t.Errorf("add: have %v, %v, want a change to configuration 4", region, err)
	}
	// What an edit that came between has done already is no change of this one.
	n.err, n.after, n.before = nil, func() {}, func() { n.apply(setRules("same")) }
	rules, err = applyRules(t, c, "same", nil)
	if err != nil || rules.GetChanged() || rules.GetRulesVersion() != 3 || rules.GetConfigVersion() != 6 {
		t.Errorf("apply what another has just applied: have %v, %v, want no change at rules 3 and configuration 6", rules, err)
	}
}
